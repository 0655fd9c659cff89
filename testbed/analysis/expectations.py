"""An experiment's expectations, judged on each kernel that ran its states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from testbed.analysis.columns import StateRounds, in_pairs
from testbed.analysis.expect import Expectation, Figures, judge, parse
from testbed.analysis.frozen import FrozenModel
from testbed.analysis.metric_key import DeviceMetric
from testbed.records.run import Run, state_label
from testbed.stats.compare import compare_pairs


class ExpectationData(FrozenModel):
    expectation: str
    state: str
    holds: bool | None = Field(description="null where the rounds cannot tell; that is not met either")
    found: str


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
        for one in judge(wanted, here, ratios):
            judged.append(
                ExpectationData(
                    expectation=f"{one.expectation}{on}", state=one.state, holds=one.holds, found=one.found
                )
            )
    return judged


def _ratios(wanted: Sequence[Expectation], states: Mapping[str, StateRounds]) -> Iterator[StateRatio]:
    for one in wanted:
        if one.over is not None and {one.over, one.state} <= states.keys():
            result = compare_pairs(
                *in_pairs(*(states[name].series(one.key) for name in (one.over, one.state)))
            )
            if result.pairs:
                yield StateRatio(one.key, one.over, one.state, result.effect, result.ci95)
