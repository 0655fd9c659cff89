"""What would decide a comparison: where its variance lies, and how to spend time better."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from pydantic import Field

from testbed.analysis.columns import StateRounds
from testbed.analysis.frozen import FrozenModel
from testbed.analysis.metric_key import DeviceMetric
from testbed.analysis.metrics import BITS
from testbed.records.run import Run
from testbed.stats.power import Cost, Parts, Plan, parts, plan_for_target, plan_for_time, warmup_bias


class PlanData(FrozenModel):
    """A plan of rounds that would measure the effect to +- `half_width`."""

    pairs: int
    measured_s: float
    omit: bool = Field(description="whether each round has its warm-up seconds, as in this run")
    time_s: float = Field(description="of all states of the run, with the overhead that its rounds had")
    half_width: float = Field(description="of the 95% interval of the effect, as a fraction")


class AdviceData(FrozenModel):
    """Where the variance of one comparison lies, and what to do about it."""

    drift: float = Field(description="share of a round's variance that a block shares; pairs cancel it")
    between: float = Field(description="share that differs from round to round, however long they are")
    within: float | None = Field(
        description="share that varies within rounds, and gets less with their length; null where unknown"
    )
    this_run: PlanData = Field(description="what this run's pairs took, and know")
    same_time: PlanData | None = Field(description="the best use of the time that this run took")
    for_target: PlanData | None = Field(
        description="the quickest way to the protocol's target (5% without one); null above 100,000 pairs"
    )


class Adviser:
    """Gives advice on the comparisons of one run."""

    def __init__(self, run: Run, states: Mapping[str, StateRounds], target: float, family: int) -> None:
        self.states, self.target, self.family = states, target, max(1, family)
        self.options = {n: run.states.get(held.state, {}).get("workload") or {} for n, held in states.items()}

    def advice(
        self, metric: str | DeviceMetric, a: str, b: str, values: tuple[Sequence[float], Sequence[float]]
    ) -> AdviceData | None:
        """Advice on state b against a in a metric; None without enough data."""
        found, bias = self.parts(metric, a, b, values), self.bias(a, b)
        cost = self.cost(self.states)
        if found is None or cost is None or not found.pair(found.measured_s):
            return None
        here = cost.block(found.measured_s) * found.pairs
        best = plan_for_time(found, cost, here, family=self.family, bias=bias)
        quickest = plan_for_target(found, cost, self.target, family=self.family, bias=bias)
        now = Plan(found.pairs, found.measured_s, True, here, found.half_width(found.pairs, found.measured_s))
        shares = found.shares()
        return AdviceData(
            drift=shares["drift"],
            between=shares["between"],
            within=shares.get("within"),
            this_run=PlanData(**vars(now)),
            same_time=None if best is None else PlanData(**vars(best)),
            for_target=None if quickest is None else PlanData(**vars(quickest)),
        )

    def parts(
        self, metric: str | DeviceMetric, a: str, b: str, values: tuple[Sequence[float], Sequence[float]]
    ) -> Parts | None:
        """The variances of a comparison. Only of the bitrate it is known what varies within rounds."""
        lengths = {self._measured(a), self._measured(b)}
        seconds = lengths.pop()
        if seconds is None:
            return None
        known = metric == BITS and not lengths  # rounds of two lengths: no plan for either
        inside = [self.states[name].inside.per_second if known else None for name in (a, b)]
        return parts(*values, seconds, inside)

    def cost(self, states: Collection[str]) -> Cost | None:
        """What a block of these states takes beside the measured seconds; None where unknown."""
        overheads = [self.states[name].columns.get("overhead_s") for name in states]
        known = [fmean(one.values) for one in overheads if one]
        if not known:
            return None
        omit = math.fsum(float(self.options[name].get("omit") or 0.0) for name in states)
        whole = math.fsum(known) * len(overheads) / len(known)
        return Cost(len(overheads), max(0.0, whole - omit), omit)

    def bias(self, a: str, b: str) -> float | None:
        """How far counting the warm-up may change the ratio of the two; see stats.power.warmup_bias()."""
        left, right = self.states[a].warmups, self.states[b].warmups
        blocks = left.keys() & right.keys()
        return warmup_bias([left[block] for block in blocks], [right[block] for block in blocks])

    def _measured(self, name: str) -> float | None:
        """Seconds of a round: the requested ones, else the measured ones."""
        if seconds := self.options[name].get("duration"):
            return float(seconds)
        column = self.states[name].columns.get("measured_us")
        return round(fmean(column.values) / 1e6, 1) or None if column else None
