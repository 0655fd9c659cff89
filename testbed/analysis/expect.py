"""What an experiment expects of its figures: `expect:` parsed, and judged against a report's data.

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

from testbed.units import (
    parse_bytes,
    parse_count,
    parse_microseconds,
    parse_rate,
    parse_seconds,
    parse_share,
)
from testbed.yamlfile import did_you_mean

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"(==|!=|<=|>=|<|>)\s*(-?)(\S.*)")
_CPU_KINDS = ("user", "system", "softirq", "irq", "idle", "iowait", "steal")
_SCALARS = (
    *("bits_per_second", "bytes", "measured_us", "retransmits", "retransmits_per_gb"),
    *("transactions_per_second", "fairness", "cpu_s_per_gb", "cpu_s.testbed", "kernel_log", "overhead_s"),
    *("noise.cpu_pressure", "noise.steal", "noise.foreign"),
    *("sockets.receive", "sockets.send", "sockets.message", "sockets.elapsed_s"),
    *("tcp.rtt_us", "tcp.rttvar_us", "tcp.snd_cwnd", "tcp.snd_wnd", "tcp.snd_mss", "tcp.pmtu"),
    *("tcp.retrans", "tcp.reord_seen", "tcp.delivered_ce"),
    *(f"cpu.{cores}.{kind}" for cores in ("app", "net") for kind in _CPU_KINDS),
)
_IN_BYTES = (
    *("bytes", "mean_size", "largest_size", "sockets.receive", "sockets.send", "sockets.message"),
    *("snd_wnd", "snd_mss", "pmtu"),
)
# Named by the tool's percentiles, and by the workload's processes.
_FAMILIES = re.compile(r"latency_us\.\w+|cpu_s_per_gb\.[\w-]+")
_SIDE = re.compile(r"(?P<place>[^:\s]+:\S+)\.(?P<direction>rx|tx)\.(?P<what>.+)")
_SIDE_WHATS = ("packets", "bytes", "mean_size", "largest_size", "frags", "frags_low", "frags_high")
_PLACE = re.compile(r"(?P<place>[^:\s]+:\S+)\.(?P<what>drops|errors)")


@dataclass(frozen=True)
class Expectation:
    """One figure and what it should be. `over` is the state that a ratio is taken over."""

    state: str
    over: str | None
    metric: str
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
    def metric(self) -> str: ...
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
    states: Mapping[str, Mapping[str, Figures]],
    ratios: Sequence[Ratio],
) -> list[Judgement]:
    """Each expectation against `states` (state -> metric -> summary) and the ratios of those that ask one."""
    return [
        Judgement(str(one), one.state, *(_state(one, states) if one.over is None else _ratio(one, ratios)))
        for one in expectations
    ]


def report_metric(name: str) -> str:
    """The report's name of what a file calls `server:veth0.rx.862.packets`. ValueError for no metric."""
    if name in _SCALARS or _FAMILIES.fullmatch(name):
        return name
    side = _SIDE.fullmatch(name)
    if side:
        what = side["what"].removesuffix(".packets").removesuffix(".share")
        if what in _SIDE_WHATS or (what.isdigit() and what != side["what"]):
            return f"{side['place']} {side['direction']} {what}"
    place = _PLACE.fullmatch(name)
    if place:
        return f"{place['place']} {place['what']}"
    known = [*_SCALARS, "latency_us.NAME", "cpu_s_per_gb.PROCESS", "NODE:DEVICE.drops", "NODE:DEVICE.errors"]
    known += [f"NODE:DEVICE.rx.{what}" for what in ("SIZE.packets", "SIZE.share", *_SIDE_WHATS)]
    hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
    raise ValueError(f"unknown metric '{name}'{hint}")


def place_of(name: str) -> str | None:
    """The `node:device` that a metric is about; None for one that is about no device."""
    found = _SIDE.fullmatch(name) or _PLACE.fullmatch(name)
    return found["place"] if found else None


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
        report_metric(str(metric))
        if slash and str(metric).endswith(".share"):
            raise ValueError(f"{who}: a ratio of shares is not known; expect it of each state")
        relation, bound = _condition(str(metric), condition, ratio=bool(slash))
        for name in states if state == "*" else (state,):
            yield Expectation(
                name, over if slash else None, str(metric), relation, bound, str(condition).strip()
            )


def _condition(metric: str, text: Any, *, ratio: bool) -> tuple[str, float]:
    """Relation and bound, in the metric's unit. ValueError, with what was expected, for what is none."""
    match = _CONDITION.fullmatch(str(text).strip())
    if not match:
        raise ValueError(f"{metric}: expected a condition such as '== 0', '> 90%' or '< 40G', got '{text}'")
    relation, sign, number = match.groups()
    parse = _parse_ratio if ratio else _parser(metric)
    try:
        return relation, float(f"{sign}1") * parse(number)
    except ValueError as error:
        raise ValueError(f"{metric}: {error}") from None


def _parser(metric: str) -> Callable[[object], float]:
    """What reads a bound of this metric: a rate, bytes, a time, a share, a percentage, or a count."""
    last = metric.rpartition(".")[2]
    if metric == "bits_per_second":
        return parse_rate
    if last in _IN_BYTES or metric in _IN_BYTES:
        return parse_bytes
    if metric.startswith("latency_us.") or last.endswith("_us"):
        return parse_microseconds
    if last.endswith("_s"):
        return parse_seconds
    if metric.startswith("noise.") or last == "share" or metric == "fairness":
        return parse_share
    return _parse_percentage if metric.startswith("cpu.") else parse_count


def _parse_percentage(text: object) -> float:
    """`90%` and `90` alike: the figures of cores are in percent already."""
    return parse_count(str(text).strip().removesuffix("%"))


def _parse_ratio(text: object) -> float:
    """`1.02` and `102%` alike."""
    number = str(text).strip()
    return parse_count(number[:-1]) / 100 if number.endswith("%") else parse_count(number)


def _state(one: Expectation, states: Mapping[str, Mapping[str, Figures]]) -> tuple[bool | None, str]:
    summaries = states.get(one.state)
    if not summaries:
        return None, "no valid round of this state"
    if one.metric.endswith(".share"):
        share = share_of_bytes(report_metric(one.metric), summaries)
        return (
            (None, "no packets were counted there") if share is None else _compare(one, share, share, share)
        )
    summary = summaries.get(report_metric(one.metric))
    if summary is not None:
        return _compare(one, summary.mean, summary.min, summary.max)
    if one.metric.endswith(".packets") and _side_total(report_metric(one.metric), summaries):
        return _compare(one, 0.0, 0.0, 0.0)
    return None, "no round has this figure"


def _compare(one: Expectation, mean: float, low: float, high: float) -> tuple[bool, str]:
    holds = _RELATIONS[one.relation]
    if one.relation in ("==", "!="):
        seen = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g} by round"
        return holds(low, one.bound) and holds(high, one.bound), seen
    return holds(mean, one.bound), f"mean {mean:.6g}"


def _ratio(one: Expectation, ratios: Sequence[Ratio]) -> tuple[bool | None, str]:
    metric = report_metric(one.metric)
    for found in ratios:
        if (found.metric, found.a, found.b) == (metric, one.over, one.state):
            if found.ci95 is None or found.effect is None:
                return None, "no interval: too few rounds, or a 0 among the figures"
            low, high = found.ci95
            seen = f"{found.effect:.4f} [{low:.4f}, {high:.4f}]"
            sides = {_RELATIONS[one.relation](end, one.bound) for end in (low, high)}
            return (sides.pop(), seen) if len(sides) == 1 else (None, f"{seen}: cannot tell")
    return None, "no block has this figure of both states"


def share_of_bytes(metric: str, summaries: Mapping[str, Figures]) -> float | None:
    """A packet size's share of the bytes of its side, 0 when it never occurred; None without any packets."""
    total = _side_total(metric, summaries)
    if not total:
        return None
    return _sum(summaries[metric]) * int(metric.rpartition(" ")[2]) / total if metric in summaries else 0.0


def _side_total(metric: str, summaries: Mapping[str, Figures]) -> float:
    """Bytes that the side of a packet size's metric saw in all rounds."""
    total = summaries.get(f"{metric.rpartition(' ')[0]} bytes")
    return _sum(total) if total else 0.0


def _sum(summary: Figures) -> float:
    return summary.mean * summary.n
