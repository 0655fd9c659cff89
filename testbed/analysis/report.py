"""The report as data: what `testbed report --format json` prints and every other format is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pydantic import Field

from testbed.analysis.adjusted import AdjustedData, adjusted_all
from testbed.analysis.advice import AdviceData, Adviser
from testbed.analysis.boot_notes import BootsData, across_remarks, boots_of, emulation_notes, lost_sides
from testbed.analysis.columns import RoundColumns, StateRounds, condense, in_pairs
from testbed.analysis.description import method, state_headers
from testbed.analysis.evidence_sums import all_rules
from testbed.analysis.expectations import ExpectationData, declared_expectations, judged_expectations
from testbed.analysis.explain import explained
from testbed.analysis.frozen import FrozenModel
from testbed.analysis.metric_key import DeviceMetric, MetricKey, Side, packet_size
from testbed.analysis.metrics import COMPARED, Better, better_of, unit_of
from testbed.analysis.profiles import ProfileData, profiles
from testbed.analysis.sureness import SurenessData
from testbed.clocks import in_words
from testbed.records.round import Round, Stack
from testbed.records.run import SCHEMA, Kernel, Machine, Run, Status
from testbed.stats.compare import SHOWN, Comparison, Verdict, compare_pairs, judged_together, pairs_to_show
from testbed.stats.drift import Drift, drift, line
from testbed.stats.summary import summarise

# A size is compared, and shown in the text, from this share of a side's packets or bytes on.
MAIN_SHARE = 0.01
MOST_SIZES = 10


class MetricSummary(FrozenModel):
    """One metric over the valid rounds of one state, in `unit`."""

    unit: str
    n: int
    mean: float
    sd: float | None
    ci95: tuple[float, float] | None = Field(description="Student's interval of the mean")
    median: float
    mad: float = Field(description="median absolute deviation, not scaled")
    min: float
    max: float
    rounds_seen: int | None = Field(
        None, description="of a packet size: the rounds in which it occurred; it counts 0 in the others"
    )
    explained: str | None = Field(None, description="of a packet size: the arithmetic behind it")


Summaries = dict[str | DeviceMetric, MetricSummary]


class DriftData(FrozenModel):
    change: float = Field(description="over the whole run, as a fraction: 0.06 is 6% up")
    p: float


class ComparisonData(FrozenModel):
    """State b against state a in one metric, over the blocks that have both."""

    metric: MetricKey
    better: Better | None = Field(description="which way of the metric is better; null where neither is")
    a: str
    b: str
    effect: float | None = Field(
        description="ratio b/a, geometric mean over the pairs; null with a 0 in them"
    )
    ci95: tuple[float, float] | None
    p_sign_flip: float | None
    p_mann_whitney: float | None
    p_holm: float | None = Field(description="the sign-flip p adjusted for the metric's other comparisons")
    pairs: int
    verdict: Verdict
    more_pairs: int | None = Field(
        description="pairs beyond these that would show an effect of the protocol's target (5% without one)"
    )
    drift: DriftData | None = Field(description="of both states' values over the order of execution")
    adjusted: AdjustedData | None = Field(
        None, description="of a metric that tables compare, where a covariate explains much of its variance"
    )
    advice: AdviceData | None = Field(
        None, description="of a metric that tables compare, where no difference is shown: what would help"
    )


class RoundCounts(FrozenModel):
    valid: int
    invalid: int
    warmup: int


class Measured(FrozenModel):
    """What one of the report's states is: the experiment's state, and the kernel that it ran on."""

    state: str
    kernel: str


class InvalidRound(FrozenModel):
    round: int
    state: str = Field(description="as in `states`: with its kernel where the run has several")
    reason: str


class ReportData(FrozenModel):
    schema_: int = Field(SCHEMA, alias="schema", serialization_alias="schema")
    run_id: str
    experiment: str
    status: Status
    problems: list[str] = Field(description="what a reader must know first: interrupted, broken lines")
    states: dict[str, dict[MetricKey, MetricSummary]] = Field(description="state -> metric -> summary")
    measured: dict[str, Measured] = Field(
        description="state, as named here (`STATE@KERNEL` in a run of several kernels) -> what that is"
    )
    comparisons: list[ComparisonData]
    expectations: list[ExpectationData]
    stacks: dict[str, list[Stack]] = Field(
        description="state -> stacks of large packets, most frequent first"
    )
    profiles: list[ProfileData]
    rules: list[str] = Field(description="where sizes were compared with the counters by a rule, and which")
    boots: dict[str, BootsData] = Field(description="state -> its throughput by boots, where kernels booted")
    across_kernels: list[str] = Field(description="remarks on comparisons across kernels, and on lost sides")
    rounds: dict[str, RoundCounts]
    sureness: dict[str, SurenessData] = Field(
        {}, description="state -> what its figures were held against, and how well they agreed"
    )
    distinct_sizes: dict[str, dict[str, int]] = Field(
        description="state -> `NODE:DEVICE rx` -> how many sizes it saw"
    )
    headers: dict[str, str] = Field(description="state -> its settings in one line")
    invalid: list[InvalidRound]
    skipped: dict[str, str] = Field(description="state -> why it was not run")
    method: str = Field(description="how it was measured, one paragraph")
    argv: list[str]
    machine: Machine
    kernels: dict[str, Kernel]
    tools: dict[str, str]


@dataclass(frozen=True)
class Report:
    """What a format is made from: the data, and the rounds behind it for formats that show each."""

    data: ReportData
    run: Run
    columns: RoundColumns


def report_data(run: Run, rounds: Iterable[Round], problems: Sequence[str] = ()) -> ReportData:
    """Everything that a report says about a run. See make_report."""
    return make_report(run, rounds, problems).data


def make_report(
    run: Run, rounds: Iterable[Round], problems: Sequence[str] = (), *, whole: bool = True
) -> Report:
    """The report of a run. `rounds` is read once, and only figures are kept.

    `problems` may still grow while `rounds` is read. Without `whole` only the metrics of COMPARED
    are compared, and packet sizes that carry less than 1% of their side in all states have no summary
    of their own, unless an expectation names them: a long run has thousands of those, and only json
    and csv tell them one by one.
    """
    columns = condense(rounds, run)
    expected = [one.key for one in declared_expectations(run)]
    # Keep sizes from half the display threshold, so that rounding cannot hide one.
    columns.select_sizes(0 if whole else MAIN_SHARE / 2, expected)
    states = columns.states
    summaries = {name: _summaries(held, run) for name, held in states.items()}
    pairs = compared_states(run, states)
    comparisons = _comparisons(run, states, summaries, pairs, whole=whole)
    headers = state_headers(run)
    data = ReportData(
        schema=SCHEMA,
        run_id=run.run_id,
        experiment=str(run.experiment.get("name", "experiment")),
        status=run.status,
        problems=[*_status_notes(run, states), *_clock_notes(columns), *emulation_notes(run), *problems],
        states=summaries,
        measured={name: Measured(state=held.state, kernel=held.kernel) for name, held in states.items()},
        comparisons=comparisons,
        expectations=judged_expectations(run, states, summaries),
        stacks={name: found for name, held in states.items() if (found := held.evidence.stacks())},
        profiles=list(profiles(states, pairs)),
        rules=all_rules([held.evidence for held in states.values()]),
        boots=boots_of(run, states),
        across_kernels=[
            *lost_sides(run),
            *across_remarks(run, states, pairs, lambda name: main_sizes(summaries[name])),
        ],
        rounds={name: _counts(held) for name, held in states.items()},
        sureness={name: held.sureness.data(len(held.rounds), held.invalid) for name, held in states.items()},
        distinct_sizes={
            name: {str(side): len(set(log.sizes)) for side, log in held.sizes.items()}
            for name, held in states.items()
        },
        headers={name: headers.get(held.state, "") for name, held in states.items()},
        invalid=_invalid(states),
        skipped=run.skipped,
        method=method(run, {name: held.example for name, held in states.items() if held.example}),
        argv=run.argv,
        machine=run.machine,
        kernels=run.kernels,
        tools=run.tools,
    )
    return Report(data, run, columns)


def compared_states(run: Run, states: Mapping[str, StateRounds]) -> list[tuple[str, str]]:
    """The comparisons that the run was made for, by the names that the report gives its states.

    In a run of several kernels that is each state across them, the first kernel as the
    baseline. Else those that the experiment names, or its first state with each other one.
    """
    by_state: dict[str, list[str]] = {}
    for name, held in states.items():
        by_state.setdefault(held.state, []).append(name)
    across = [(first, other) for first, *others in by_state.values() for other in others]
    if across:
        return across
    asked = run.experiment.get("compare")
    pairs = [(str(a), str(b)) for a, b in asked] if asked else []
    if not pairs and by_state:
        first, *others = by_state
        pairs = [(first, other) for other in others]
    return [(by_state[a][0], by_state[b][0]) for a, b in pairs if a in by_state and b in by_state]


def target_effect(run: Run) -> float:
    """The ratio that the experiment is made to show: 1 and the protocol's target, 5% without one."""
    return 1 + float((run.experiment.get("protocol") or {}).get("target") or 0.05)


def main_sizes(summaries: Summaries) -> dict[DeviceMetric, tuple[float, float]]:
    """Packet-size metrics that carry 1% of their side's packets or bytes -> their two shares.

    At most MOST_SIZES of a side, those with the largest shares: where a slow flow has
    dozens of sizes, no single one says much.
    """
    shares = size_shares(summaries, MAIN_SHARE)
    ranks: dict[Side, list[DeviceMetric]] = {}
    for key in sorted(shares, key=lambda key: -max(shares[key])):
        if found := packet_size(key):
            ranks.setdefault(found.side, []).append(key)
    kept = {key for keys in ranks.values() for key in keys[:MOST_SIZES]}
    return {key: share for key, share in shares.items() if key in kept}


def size_shares(summaries: Summaries, least: float = 0.0) -> dict[DeviceMetric, tuple[float, float]]:
    """Packet size -> its share of its side's packets, and of its bytes, where one reaches `least`."""
    shares: dict[DeviceMetric, tuple[float, float]] = {}
    for key, summary in summaries.items():
        if found := packet_size(key):
            count = _total(summary)
            packets, length = (_total(summaries[found.side.metric(what)]) for what in ("packets", "bytes"))
            share = count / packets, count * found.size / length
            if max(share) >= least:
                shares[found.side.metric(found.size)] = share
    return shares


def _total(summary: MetricSummary) -> float:
    """Over all rounds: a side's packets are missing, a size's are 0, in a round that saw none."""
    return summary.mean * summary.n


def _summaries(held: StateRounds, run: Run) -> Summaries:
    metrics = held.metrics()
    words = explained(held.example, run.states.get(held.state, {}), metrics) if held.example else {}
    summaries: Summaries = {}
    for metric in metrics:
        values = held.columns[metric].values
        seen = len(values) if packet_size(metric) else None
        summary = summarise(values, zeros=0 if seen is None else len(held.with_sizes) - seen)
        summaries[metric] = MetricSummary(
            unit=unit_of(metric), rounds_seen=seen, explained=words.get(metric), **vars(summary)
        )
    return summaries


def _comparisons(
    run: Run,
    states: dict[str, StateRounds],
    summaries: dict[str, Summaries],
    asked: Sequence[tuple[str, str]],
    *,
    whole: bool,
) -> list[ComparisonData]:
    """Metric by metric, all requested comparisons judged together. Only those of COMPARED without `whole`."""
    asked = [(a, b) for a, b in asked if summaries.get(a) and summaries.get(b)]
    compared_in = _compared_metrics if whole else _shown_metrics
    metrics = {name: compared_in(summaries[name]) for name in dict.fromkeys(chain(*asked))}
    effect = target_effect(run)
    adviser = Adviser(run, states, effect - 1, len(asked))
    compared: list[ComparisonData] = []
    for metric in dict.fromkeys(metric for held in metrics.values() for metric in held):
        pairs = [(a, b) for a, b in asked if metric in metrics[a] | metrics[b]]
        series = {name: states[name].series(metric) for name in dict.fromkeys(chain(*pairs))}
        values = [in_pairs(series[a], series[b]) for a, b in pairs]
        results = judged_together([compare_pairs(*one) for one in values])
        lines = {name: line(one.rounds, one.values) for name, one in series.items()}
        shown = metric in COMPARED
        others = adjusted_all(states, pairs, series, results) if shown else [None] * len(pairs)
        for (a, b), result, held, other in zip(pairs, results, values, others, strict=True):
            if result.pairs:
                advice = adviser.advice(metric, a, b, held) if shown and result.verdict not in SHOWN else None
                found = drift([lines[a], lines[b]])
                compared.append(_comparison(metric, a, b, result, effect, found, other, advice))
    return compared


def _compared_metrics(summaries: Summaries) -> dict[str | DeviceMetric, None]:
    """All metrics, but of the packet sizes only the main ones. In order, as a set that keeps it."""
    main = main_sizes(summaries)
    return dict.fromkeys(name for name in summaries if name in main or not packet_size(name))


def _shown_metrics(summaries: Summaries) -> dict[str | DeviceMetric, None]:
    return dict.fromkeys(name for name in summaries if name in COMPARED)


def _comparison(
    metric: str | DeviceMetric,
    a: str,
    b: str,
    result: Comparison,
    effect: float,
    found: Drift | None,
    adjusted: AdjustedData | None,
    advice: AdviceData | None,
) -> ComparisonData:
    wanted = None if result.spread is None else pairs_to_show(result.spread, effect)
    return ComparisonData(
        metric=metric,
        better=better_of(metric),
        a=a,
        b=b,
        effect=result.effect,
        ci95=result.ci95,
        p_sign_flip=result.p_sign_flip,
        p_mann_whitney=result.p_mann_whitney,
        p_holm=result.p_holm,
        pairs=result.pairs,
        verdict=result.verdict,
        more_pairs=None if wanted is None else max(0, wanted - result.pairs),
        drift=None if found is None else DriftData(change=found.change, p=found.p),
        adjusted=adjusted,
        advice=advice,
    )


def _counts(held: StateRounds) -> RoundCounts:
    return RoundCounts(valid=len(held.rounds), invalid=len(held.invalid), warmup=held.warmup)


def _invalid(states: Mapping[str, StateRounds]) -> list[InvalidRound]:
    found = [
        InvalidRound(round=record.round, state=label, reason=record.reason or "no reason recorded")
        for label, held in states.items()
        for record in held.invalid
    ]
    return sorted(found, key=lambda one: one.round)


def _clock_notes(columns: RoundColumns) -> list[str]:
    """Notes on rounds during which the wall clock was set."""
    steps = [
        f"round {number} {in_words(step)}" for number, found in columns.clock_steps.items() for step in found
    ]
    more = f" and {len(steps) - 5} more" if len(steps) > 5 else ""
    return [
        f"the wall clock was set during the run ({', '.join(steps[:5])}{more}): times of day in the records "
        "jump there; durations and rates do not, as they are by CLOCK_MONOTONIC or the round is invalid"
    ] * bool(steps)


def _status_notes(run: Run, states: dict[str, StateRounds]) -> list[str]:
    valid = sum(len(held.rounds) for held in states.values())
    return {
        "complete": [],
        "running": [f"the run is still going on: {valid} valid rounds so far"],
        "interrupted": [f"the run was interrupted after {valid} valid rounds"],
        "failed": [f"the run failed: {valid} valid rounds, wanted ones are missing"],
    }[run.status]
