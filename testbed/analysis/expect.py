"""Parse the `expect:` section of an experiment, and judge it against a report's data.

    expect:
      - big-tcp-nodelay: {server:veth0.rx.862.packets: "== 0"}
      - big-tcp: {server:veth0.rx.512094.share: "> 90%", retransmits: "< 10"}
      - "*": {kernel_log: "== 0"}
      - big-tcp-nodelay / big-tcp: {bits_per_second: "> 1.02"}

A bound is read in its metric's unit, by the rules of docs/units.md: bytes in powers of
1024, everything else in powers of 1000, times with their unit.

A state's `==` and `!=` must hold in each round; its other relations are those of the
mean. A ratio is judged by its 95% interval: all of it must be on the expected side.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.analysis.metric_key import DeviceMetric, Side, packet_size
from testbed.analysis.metrics import COUNTER_METRICS, FAMILIES, NAMED, QUEUE_METRICS, SIDE_METRICS, unit_of
from testbed.units import (
    parse_bytes,
    parse_count,
    parse_microseconds,
    parse_rate,
    parse_seconds,
    parse_share,
)
from testbed.yamlfile import did_you_mean

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"(==|!=|<=|>=|<|>)\s*(-?)(\S.*)")
_SIDE = re.compile(r"(?P<node>[^:\s]+):(?P<device>\S+)\.(?P<direction>rx|tx)\.(?P<what>.+)")
_DEVICE = re.compile(r"(?P<node>[^:\s]+):(?P<device>\S+)\.(?P<what>\w+)")
_SIZE = re.compile(r"(?P<size>\d+)\.(?P<of>packets|share)")
_SIDES = [metric.name for metric in SIDE_METRICS]
_COUNTERS = [*(metric.name for metric in COUNTER_METRICS), *(metric.name for metric in QUEUE_METRICS)]


@dataclass(frozen=True)
class Expectation:
    """One figure and what it should be.

    over: the state that a ratio is taken over. metric: as the file says it. key: the figure's. share: of
    the bytes of its side, which is expected of a packet size instead of its packets.
    """

    state: str
    over: str | None
    metric: str
    key: str | DeviceMetric
    share: bool
    relation: str
    bound: float
    condition: str

    def __str__(self) -> str:
        who = self.state if self.over is None else f"{self.state} / {self.over}"
        return f"{who}: {self.metric} {self.condition}"


@dataclass(frozen=True)
class Judgement:
    """Whether an expectation holds, and what was found. `holds` is None where nothing can be said."""

    expectation: str
    state: str
    holds: bool | None
    found: str


class Figures(Protocol):
    """A metric's summary, as far as it is needed here."""

    @property
    def n(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def min(self) -> float: ...
    @property
    def max(self) -> float: ...


class Ratio(Protocol):
    """State b over state a in one metric, as far as it is needed here."""

    @property
    def metric(self) -> str | DeviceMetric: ...
    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def effect(self) -> float | None: ...
    @property
    def ci95(self) -> tuple[float, float] | None: ...


def parse(raw: Sequence[Mapping[str, Any]], states: Sequence[str]) -> list[Expectation]:
    """The `expect:` of an experiment with these states, `*` written out.

    ValueError, in words for the file's author, for an unknown state or metric, or a
    condition that is none.
    """
    return [
        expectation
        for entry in raw
        for who, conditions in entry.items()
        for expectation in _of_states(str(who), conditions, states)
    ]


def judge(
    expectations: Sequence[Expectation],
    states: Mapping[str, Mapping[str | DeviceMetric, Figures]],
    ratios: Sequence[Ratio],
) -> list[Judgement]:
    """Each expectation against `states` (state -> metric -> summary) and the ratios of those that ask one."""
    return [
        Judgement(str(one), one.state, *(_state(one, states) if one.over is None else _ratio(one, ratios)))
        for one in expectations
    ]


def metric_named(name: str) -> tuple[str | DeviceMetric, bool]:
    """The figure that a file calls `server:veth0.rx.862.packets`, and whether its share is meant.

    ValueError for no metric.
    """
    if name in NAMED or any(re.fullmatch(rf"{family.name}\.[\w-]+", name) for family in FAMILIES):
        return name, False
    if side := _SIDE.fullmatch(name):
        of = Side(side["node"], side["device"], "rx" if side["direction"] == "rx" else "tx")
        if size := _SIZE.fullmatch(side["what"]):
            return of.metric(int(size["size"])), size["of"] == "share"
        if side["what"] in _SIDES:
            return of.metric(side["what"]), False
    elif (device := _DEVICE.fullmatch(name)) and device["what"] in _COUNTERS:
        return DeviceMetric(device["node"], device["device"], None, device["what"]), False
    known = [*NAMED, *(f"{family.name}.{family.member}" for family in FAMILIES)]
    known += [f"NODE:DEVICE.{what}" for what in _COUNTERS]
    known += [f"NODE:DEVICE.rx.{what}" for what in ("SIZE.packets", "SIZE.share", *_SIDES)]
    hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
    raise ValueError(f"unknown metric '{name}'{hint}")


def _of_states(who: str, conditions: Any, states: Sequence[str]) -> Iterator[Expectation]:
    state, slash, over = (part.strip() for part in who.partition(" / "))
    for name in (state, over) if slash else (state,):
        if name not in states and (slash or name != "*"):
            hint = did_you_mean(name, list(states)) or f"; the states are {', '.join(states)}"
            raise ValueError(f"'{name}' is not a state{hint}")
    if not isinstance(conditions, Mapping) or not conditions:
        raise ValueError(
            f"{who}: expected a mapping of metrics to conditions, such as {{retransmits: '< 10'}}"
        )
    for metric, condition in conditions.items():
        key, share = metric_named(str(metric))
        if slash and share:
            raise ValueError(f"{who}: a ratio of shares is not known; expect it of each state")
        read = _reader(key, ratio=bool(slash), share=share)
        relation, bound = _condition(str(metric), condition, read)
        for name in states if state == "*" else (state,):
            yield Expectation(
                state=name,
                over=over if slash else None,
                metric=str(metric),
                key=key,
                share=share,
                relation=relation,
                bound=bound,
                condition=str(condition).strip(),
            )


def _reader(key: str | DeviceMetric, *, ratio: bool, share: bool) -> Callable[[object], float]:
    """What reads a bound of this figure."""
    if ratio:
        return _parse_ratio
    return parse_share if share else _READERS.get(unit_of(key), parse_count)


def _condition(metric: str, text: Any, read: Callable[[object], float]) -> tuple[str, float]:
    """Relation and bound, in the metric's unit. ValueError, with what was expected, for what is none."""
    match = _CONDITION.fullmatch(str(text).strip())
    if not match:
        raise ValueError(f"{metric}: expected a condition such as '== 0', '> 90%' or '< 40G', got '{text}'")
    relation, sign, number = match.groups()
    try:
        return relation, float(f"{sign}1") * read(number)
    except ValueError as error:
        raise ValueError(f"{metric}: {error}") from None


def _parse_percentage(text: object) -> float:
    """`90%` and `90` alike: the figures of cores are in percent already."""
    return parse_count(str(text).strip().removesuffix("%"))


def _parse_ratio(text: object) -> float:
    """`1.02` and `102%` alike."""
    number = str(text).strip()
    return parse_count(number[:-1]) / 100 if number.endswith("%") else parse_count(number)


# What reads a bound, by the unit of its metric; a number of things where none is here.
_READERS: dict[str, Callable[[object], float]] = {
    "bit/s": parse_rate,
    "bytes": parse_bytes,
    "us": parse_microseconds,
    "s": parse_seconds,
    "%": _parse_percentage,
    "": parse_share,
}


def _state(
    one: Expectation, states: Mapping[str, Mapping[str | DeviceMetric, Figures]]
) -> tuple[bool | None, str]:
    summaries = states.get(one.state)
    if not summaries:
        return None, "no valid round of this state"
    summary, size = summaries.get(one.key), packet_size(one.key)
    whole = summaries.get(size.side.metric("bytes")) if size else None
    if size and one.share:
        if not whole or not _sum(whole):
            return None, "no packets were counted there"
        share = _sum(summary) * size.size / _sum(whole) if summary else 0.0
        return _compare(one, share, share, share)
    if summary is not None:
        return _compare(one, summary.mean, summary.min, summary.max)
    if whole and _sum(whole):  # a size that never occurred on a side that saw others
        return _compare(one, 0.0, 0.0, 0.0)
    return None, "no round has this figure"


def _compare(one: Expectation, mean: float, low: float, high: float) -> tuple[bool, str]:
    holds = RELATIONS[one.relation]
    if one.relation in ("==", "!="):
        seen = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g} by round"
        return holds(low, one.bound) and holds(high, one.bound), seen
    return holds(mean, one.bound), f"mean {mean:.6g}"


def _ratio(one: Expectation, ratios: Sequence[Ratio]) -> tuple[bool | None, str]:
    for found in ratios:
        if (found.metric, found.a, found.b) == (one.key, one.over, one.state):
            if found.ci95 is None or found.effect is None:
                return None, "no interval: too few rounds, or a 0 among the figures"
            low, high = found.ci95
            seen = f"{found.effect:.4f} [{low:.4f}, {high:.4f}]"
            sides = {RELATIONS[one.relation](end, one.bound) for end in (low, high)}
            return (sides.pop(), seen) if len(sides) == 1 else (None, f"{seen}: cannot tell")
    return None, "no block has this figure of both states"


def _sum(summary: Figures) -> float:
    return summary.mean * summary.n
