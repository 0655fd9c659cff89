"""An experiment's expectations, judged on each kernel that ran its states."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pydantic import Field

from testbed.analysis.columns import StateRounds, in_pairs
from testbed.analysis.expect import RELATIONS, Expectation, Figures, judge, parse
from testbed.analysis.frozen import FrozenModel
from testbed.analysis.metric_key import DeviceMetric, Side
from testbed.analysis.unseen import Missed, Range, all_of, holds, ranges
from testbed.records.run import Run, state_label
from testbed.stats.compare import compare_pairs


class ExpectationData(FrozenModel):
    expectation: str
    state: str
    holds: bool | None = Field(description="null where the rounds cannot tell; that is not met either")
    found: str


# Judged by the packets that were seen, unless they are to be exact.
_OF_SEEN = ("largest_size", "mean_size", "frags", "frags_low", "frags_high")


@dataclass(frozen=True)
class StateRatio:
    """A metric of state b over that of state a on one kernel, over the blocks that have both."""

    metric: str | DeviceMetric
    a: str
    b: str
    effect: float | None
    ci95: tuple[float, float] | None


def declared_expectations(run: Run) -> list[Expectation]:
    """`expect:` of the experiment."""
    return parse(run.experiment.get("expect") or [], list(run.states))


def judged_expectations(
    run: Run, states: Mapping[str, StateRounds], summaries: Mapping[str, Mapping[str | DeviceMetric, Figures]]
) -> list[ExpectationData]:
    """The expectations of the states that could run, once for each kernel that ran any, and named by it."""
    declared = declared_expectations(run)
    judged = []
    kernels = dict.fromkeys(held.kernel for held in states.values())
    for kernel in kernels:
        skipped = {
            name
            for name in run.states
            if {name, state_label(name, kernel, len(run.kernels))} & {*run.skipped}
        }
        wanted = [one for one in declared if not {one.state, one.over} & skipped]
        labels = {held.state: name for name, held in states.items() if held.kernel == kernel}
        here = {state: summaries[name] for state, name in labels.items()}
        ratios = list(_ratios(wanted, {state: states[name] for state, name in labels.items()}))
        on = f" on {kernel}" if len(kernels) > 1 else ""
        for asked_for, one in zip(wanted, judge(wanted, here, ratios), strict=True):
            settled, found = one.holds, one.found
            if settled is not None and asked_for.over is None:
                settled, found = _with_unseen(asked_for, states[labels[one.state]], settled, found)
            judged.append(
                ExpectationData(
                    expectation=f"{one.expectation}{on}", state=one.state, holds=settled, found=found
                )
            )
    return judged


def _with_unseen(one: Expectation, held: StateRounds, settled: bool, found: str) -> tuple[bool | None, str]:
    """The judgement, or None and why, where packets that were not seen could make it another."""
    key = one.key
    if isinstance(key, str) or key.direction is None:
        return settled, found
    side = Side(key.node, key.device, key.direction)
    missed = held.sureness.unseen.at(side)
    if not missed:
        return settled, found
    relation = RELATIONS[one.relation]
    if one.share:
        where = [_share(held, side, key, missed.values())]
    else:
        where = list(ranges(key.what, held.by_index(key), missed))
        if one.relation not in ("==", "!="):
            if key.what in _OF_SEEN:
                return settled, found
            where = [Range(fmean(each.low for each in where), fmean(each.high for each in where))]
    if (settled_so := all_of([holds(relation, one.relation, each, one.bound) for each in where])) is not None:
        return settled_so, found
    packets = sum(each.packets for each in missed.values())
    return None, (
        f"{found}; not decided: {packets} packet{'s' * (packets != 1)} at {side} "
        f"{'were' if packets != 1 else 'was'} not seen, in {len(missed)} of {len(held.rounds)} rounds. "
        "Run it with `protocol: {unseen: 0}`, which runs such rounds again"
    )


def _share(held: StateRounds, side: Side, key: DeviceMetric, missed: Collection[Missed]) -> Range:
    """The range of a packet size's share of its side's bytes, over all rounds."""
    size = key.size or 0
    octets = size * sum(value for _, value in held.by_index(key))
    whole = sum(value for _, value in held.by_index(side.metric("bytes")))
    unseen = sum(one.bytes for one in missed)
    return Range(octets / (whole + unseen), (octets + unseen) / (whole + unseen))


def _ratios(wanted: Sequence[Expectation], states: Mapping[str, StateRounds]) -> Iterator[StateRatio]:
    for one in wanted:
        if one.over is not None and {one.over, one.state} <= states.keys():
            result = compare_pairs(
                *in_pairs(*(states[name].series(one.key) for name in (one.over, one.state)))
            )
            if result.pairs:
                yield StateRatio(one.key, one.over, one.state, result.effect, result.ci95)
