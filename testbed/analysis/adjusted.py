"""Comparisons adjusted for what disturbed the rounds from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from testbed.analysis.columns import Series, StateRounds
from testbed.analysis.frozen import FrozenModel
from testbed.stats.compare import Comparison, Verdict, judged_together
from testbed.stats.covariance import Adjusted, adjusted

# What a state does not bring about itself. CPU pressure is not among them: the flow waits too.
COVARIATES = ("noise.foreign", "noise.steal")


class AdjustedData(FrozenModel):
    """The comparison as it would be with rounds disturbed alike. Where it is given, it decides."""

    covariate: str = Field(description="the metric that it is adjusted for")
    slope: float = Field(description="of the log ratio, for each percent of the covariate")
    effect: float
    ci95: tuple[float, float]
    p_sign_flip: float
    p_holm: float = Field(description="with the metric's other comparisons, adjusted where they are")
    verdict: Verdict
    balanced: bool = Field(
        description="whether the covariate is alike in both states; else a state may bring it about"
    )


def adjusted_all(
    states: Mapping[str, StateRounds],
    pairs: Sequence[tuple[str, str]],
    series: Mapping[str, Series],
    plain: Sequence[Comparison],
) -> list[AdjustedData | None]:
    """One metric's comparisons `pairs`, each adjusted or None. `plain`: as they are without."""
    found = [_adjusted(states[a], states[b], series[a], series[b]) for a, b in pairs]
    if not any(found):
        return [None] * len(found)
    held = zip(found, plain, strict=True)
    together = judged_together([one.comparison if one else other for one, other in held])
    return [_data(one, judged) if one else None for one, judged in zip(found, together, strict=True)]


def _adjusted(a: StateRounds, b: StateRounds, x: Series, y: Series) -> Adjusted | None:
    left, right = dict(zip(x.blocks, x.values, strict=True)), dict(zip(y.blocks, y.values, strict=True))
    blocks = sorted(left.keys() & right.keys())
    known = {name: [_by_block(one.series(name)) for one in (a, b)] for name in COVARIATES}
    covariates = {
        name: [after[block] - before[block] for block in blocks]
        for name, (before, after) in known.items()
        if before.keys() & after.keys() >= set(blocks)
    }
    return adjusted([left[block] for block in blocks], [right[block] for block in blocks], covariates)


def _by_block(series: Series) -> dict[int, float]:
    return dict(zip(series.blocks, series.values, strict=True))


def _data(found: Adjusted, judged: Comparison) -> AdjustedData:
    assert judged.effect is not None and judged.ci95 is not None
    assert judged.p_sign_flip is not None and judged.p_holm is not None
    return AdjustedData(
        covariate=found.covariate,
        slope=found.slope,
        effect=judged.effect,
        ci95=judged.ci95,
        p_sign_flip=judged.p_sign_flip,
        p_holm=judged.p_holm,
        verdict=judged.verdict,
        balanced=found.balanced,
    )
