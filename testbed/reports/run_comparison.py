"""Two runs side by side: what differs between them, their states unpaired, and their effects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from testbed.analysis.frozen import FrozenModel
from testbed.analysis.metrics import BITS, COMPARED
from testbed.analysis.report import ComparisonData, Report, target_effect
from testbed.records.run import Run
from testbed.reports.figures_text import p_value, ratio_words, table, wrapped
from testbed.reports.tables import title_of
from testbed.stats.compare import SHOWN, Verdict, compare_unpaired, judged_together

Agreement = Literal["agrees", "disagrees", "cannot tell"]
_HOW = {"": "on the machine itself", "kvm": "in a VM with KVM", "tcg": "in a VM under software emulation"}
AGREEMENT = (
    "Judged is the ratio of the two effects with its interval, from both intervals: beyond the margin "
    "they disagree, within it they agree, and so they do where the ratio may be 1 and both show the same "
    "difference, or the ratio is known to within the margin. The margin is the protocol's target (5% "
    "without one), but of an effect shown at least a quarter and at most a half, in logarithms: runs vary "
    "by more than the rounds of one."
)


class Unpaired(FrozenModel):
    """A metric of one state: run b against run a. The rounds of two runs never belong together."""

    metric: str
    state: str
    effect: float | None = Field(description="ratio b/a of the geometric means")
    ci95: tuple[float, float] | None = Field(description="Welch's interval")
    p_mann_whitney: float | None
    p_holm: float | None
    verdict: Verdict


class RunComparison(FrozenModel):
    """What `testbed compare --json` prints."""

    a: str
    b: str
    paired: Literal[False] = False
    warning: str = Field("", description="why rates cannot be compared: one run was emulated, the other not")
    differences: list[str] = Field(description="everything recorded that is not the same in both runs")
    comparisons: list[Unpaired]


class Reproduced(FrozenModel):
    """One comparison of states as two runs found it: theirs and ours."""

    metric: str
    a: str
    b: str
    theirs: float | None
    theirs_ci95: tuple[float, float] | None
    ours: float | None
    ours_ci95: tuple[float, float] | None
    judgement: Agreement


def compare_runs(a: Report, b: Report, states: Sequence[str] = ()) -> RunComparison:
    """Compare the states that both runs have (or `states`), metric by metric, unpaired."""
    common = [name for name in a.data.states if name in b.data.states and (not states or name in states)]
    found = []
    for metric in COMPARED:
        has = [name for name in common if all(metric in run.data.states[name] for run in (a, b))]
        results = judged_together(
            [
                compare_unpaired(*(run.columns.states[name].series(metric).values for run in (a, b)))
                for name in has
            ]
        )
        for name, result in zip(has, results, strict=True):
            found.append(
                Unpaired(
                    metric=metric,
                    state=name,
                    effect=result.effect,
                    ci95=result.ci95,
                    p_mann_whitney=result.p_mann_whitney,
                    p_holm=result.p_holm,
                    verdict=result.verdict,
                )
            )
    return RunComparison(
        a=a.data.run_id,
        b=b.data.run_id,
        warning=_emulated(a.run, b.run),
        differences=differences(a.run, b.run),
        comparisons=found,
    )


def differences(a: Run, b: Run) -> list[str]:
    """Each recorded thing that is not the same: kernels, tools, machine, states, protocol. `what: a / b`."""
    sides = [_circumstances(run) for run in (a, b)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [
        f"{name}: {sides[0].get(name, 'none')} / {sides[1].get(name, 'none')}"
        for name in names
        if sides[0].get(name) != sides[1].get(name)
    ]


def reproduced(theirs: Report, ours: Report) -> list[Reproduced]:
    """The throughput effects that both runs have, and whether they agree."""
    here = {(one.a, one.b): one for one in ours.data.comparisons if one.metric == BITS}
    there = [one for one in theirs.data.comparisons if one.metric == BITS]
    return [
        Reproduced(
            metric=one.metric,
            a=one.a,
            b=one.b,
            theirs=one.effect,
            theirs_ci95=one.ci95,
            ours=own.effect if own else None,
            ours_ci95=own.ci95 if own else None,
            judgement=agreement(one, own, target_effect(theirs.run)) if own else "cannot tell",
        )
        for one in there
        for own in [here.get((one.a, one.b))]
    ]


def agreement(theirs: ComparisonData, ours: ComparisonData, target: float) -> Agreement:
    """Whether two effects are the same, by the interval of their ratio and a margin.

    The interval's half width is that of both intervals combined, the root of the sum of squares of
    their logarithms (MOVER: Zou and Donner, Statistics in Medicine 27, 2008). It knows how rounds
    vary within a run, not how runs vary: the margin stands for that. Wholly beyond the margin, the
    effects disagree. Wholly within it, they agree; so they do with 1 in the interval when both runs
    show the same difference, or when its half width is within the margin. Otherwise there is too
    little to tell.
    """
    if None in (theirs.effect, theirs.ci95, ours.effect, ours.ci95):
        return "cannot tell"
    shift = abs(math.log((ours.effect or 1) / (theirs.effect or 1)))
    half = math.hypot(
        *(math.log(high / low) / 2 for low, high in (theirs.ci95 or (1, 1), ours.ci95 or (1, 1)))
    )
    allowed = margin(theirs, target)
    if shift - half > allowed:
        return "disagrees"
    shown = theirs.verdict == ours.verdict and theirs.verdict in SHOWN
    if shift + half <= allowed or (shift <= half and (shown or half <= allowed)):
        return "agrees"
    return "cannot tell"


def margin(theirs: ComparisonData, target: float) -> float:
    """By how much the logarithms of two effects may differ and still be the same effect.

    The `target` effect (the protocol's target), but of an effect that they show no more than a half
    and no less than a quarter: one of 3% is not the same as none, one of 10x is the same as one of 8x.
    """
    if theirs.verdict not in SHOWN:
        return math.log(target)
    whole = abs(math.log(theirs.effect or 1))
    return max(whole / 4, min(math.log(target), whole / 2))


def compare_text(found: RunComparison) -> str:
    """`testbed compare` for people: the differences first, then the table."""
    lines = [f"a = {found.a}", f"b = {found.b}", ""]
    lines += [*wrapped(found.warning), ""] if found.warning else []
    if found.differences:
        lines += ["These differ (a / b); an effect below can come from any of them:"]
        lines += [f"  {line}" for line in found.differences]
    else:
        lines += ["Nothing that was recorded differs between the two runs."]
    lines += [
        "",
        *wrapped("Unpaired: the rounds of two runs do not belong together, so drift is not cancelled."),
    ]
    rows = [
        [
            one.state,
            title_of(one.metric),
            _effect(one.effect, one.ci95),
            p_value(one.p_holm),
            one.verdict,
        ]
        for one in found.comparisons
        if one.effect is not None or one.p_mann_whitney != 1
    ]
    lines += ["", *table(["state", "metric", "b/a [95% CI]", "p", "verdict"], rows)]
    return "\n".join(lines) + "\n"


def reproduced_text(theirs: Report, ours: Report) -> str:
    """`testbed reproduce` for people: what differs here, absolutes, and the effects with a judgement."""
    warning = _emulated(theirs.run, ours.run)
    lines = [*wrapped(warning), ""] if warning else []
    lines += ["These differ from the original (original / here):"]
    lines += [f"  {line}" for line in differences(theirs.run, ours.run)] or ["  nothing that was recorded"]
    rows = []
    for state, held in theirs.data.states.items():
        own = ours.data.states.get(state, {})
        if "bits_per_second" in held and "bits_per_second" in own:
            both = (held["bits_per_second"], own["bits_per_second"])
            rows.append([state, *(f"{one.mean * 1e-9:.2f} ±{(one.sd or 0) * 1e-9:.2f}" for one in both)])
    lines += ["", *table(["Gbit/s, not judged", "original", "here"], rows)]
    judged = reproduced(theirs, ours)
    rows = [
        [
            f"{one.b} / {one.a}",
            _effect(one.theirs, one.theirs_ci95),
            _effect(one.ours, one.ours_ci95),
            one.judgement,
        ]
        for one in judged
    ]
    lines += ["", *table(["effect on the bitrate", "original", "here", "judgement"], rows)]
    lines += ["", *wrapped(AGREEMENT)]
    return "\n".join(lines) + "\n"


def _effect(ratio: float | None, interval: tuple[float, float] | None) -> str:
    return "no ratio" if ratio is None else ratio_words(ratio, interval)


def _circumstances(run: Run) -> dict[str, str]:
    """Everything recorded about a run that two alike runs have alike, flat, in words."""
    found: dict[str, str] = {}
    for index, kernel in enumerate(run.kernels.values(), start=1):
        name = "kernel" if len(run.kernels) == 1 else f"kernel {index}"
        found |= {
            name: f"{kernel.release} {kernel.version}",
            f"{name} ran": _HOW.get(kernel.accelerator or "", str(kernel.accelerator)),
            f"{name} configuration": (kernel.config_sha256 or "unknown")[:12],
            f"{name} command line": kernel.cmdline or "none",
            f"{name} series": ", ".join(patch.subject for patch in kernel.series) or "none",
        }
    found |= {f"machine {key}": str(value) for key, value in _flat(run.machine.model_dump(), ())}
    found |= {f"tool {name}": version for name, version in run.tools.items()}
    for state, body in run.states.items():
        parts = {key: body.get(key) for key in ("topology", "workload", "cpus", "settings")}
        found |= {f"state {state}: {key}": value for key, value in _flat(parts, ())}
    found |= {f"protocol {key}": value for key, value in _flat(run.experiment.get("protocol") or {}, ())}
    found.pop("protocol seed", None)
    return found


def _emulated(a: Run, b: Run) -> str:
    """Said first where one run was emulated and the other not; nothing where they are alike."""
    emulated = [any(kernel.accelerator == "tcg" for kernel in run.kernels.values()) for run in (a, b)]
    if emulated[0] == emulated[1]:
        return ""
    return (
        f"Run {(a if emulated[0] else b).run_id} ran under software emulation (tcg), the other did not: "
        "packet sizes, refusals and order can be compared, rates, times and effects on them cannot."
    )


def _flat(value: Any, key: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, (*key, str(name)))
    else:
        yield ".".join(key), ",".join(map(str, value)) if isinstance(value, list) else str(value)
