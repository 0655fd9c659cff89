"""Two states side by side: the ratio b/a with its interval, two tests, and a verdict in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean, variance
from typing import Literal

from testbed.stats.rank import (
    holm,
    mann_whitney_p,
    sign_flip_p,
    smallest_mann_whitney_p,
    smallest_sign_flip_p,
)
from testbed.stats.student import t_quantile
from testbed.stats.summary import deviation, t_interval

LEVEL = 0.05
Verdict = Literal["b higher", "b lower", "no difference shown", "too few rounds"]
SHOWN: Sequence[Verdict] = ("b higher", "b lower")  # the verdicts that say there is a difference
Interval = tuple[float, float]


@dataclass(frozen=True)
class Comparison:
    """State b against state a in one metric.

    `effect` is the ratio b/a (the geometric mean over the pairs) and `ci95` its interval:
    Student's, of the log-ratios. Both are None where a value is 0, since no ratio exists
    there; the tests then use the plain differences. A difference is shown when the
    interval excludes 1 and the deciding p is at most 0.05: sign-flip for pairs,
    Mann-Whitney without them. `smallest_p` is the least that this many rounds can give;
    `spread` is the standard deviation of the log-ratios of the pairs.
    """

    effect: float | None = None
    ci95: Interval | None = None
    p_sign_flip: float | None = None
    p_mann_whitney: float | None = None
    pairs: int = 0
    verdict: Verdict = "too few rounds"
    paired: bool = True
    smallest_p: float = 1.0
    p_holm: float | None = None
    spread: float | None = None

    @property
    def deciding_p(self) -> float | None:
        return self.p_sign_flip if self.paired else self.p_mann_whitney


def compare_pairs(a: Sequence[float], b: Sequence[float]) -> Comparison:
    """Compare values that belong together pair by pair (the same block). ValueError for unequal lengths."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values are not pairs")
    if not a:
        return Comparison()
    ratios = _all_positive(a, b)
    differences = [math.log(y / x) if ratios else y - x for x, y in zip(a, b, strict=True)]
    centre = fmean(differences)
    spread = deviation(differences, centre) if ratios and len(a) > 1 else None
    interval = None if spread is None else _exp(t_interval(n=len(a), mean=centre, sd=spread))
    return judged(
        Comparison(
            effect=math.exp(centre) if ratios else None,
            ci95=interval,
            spread=spread,
            p_sign_flip=sign_flip_p(differences),
            p_mann_whitney=mann_whitney_p(a, b),
            pairs=len(a),
            smallest_p=smallest_sign_flip_p(len(a)),
        ),
        centre,
    )


def half_width(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Half the width of the 95% interval of the ratio b/a over pairs, as a fraction of the ratio.

    None while it cannot be known. Whatever the ratio is, the spread of the pairs alone decides:
    this is all that a rule that decides when to stop may look at.
    """
    if len(a) != len(b) or len(a) < 2 or not _all_positive(a, b):
        return None
    low, high = _exp(_interval([math.log(y / x) for x, y in zip(a, b, strict=True)]))
    return (high - low) / 2 / math.sqrt(high * low)


def pairs_to_show(spread: float, effect: float, power: float = 0.8) -> int:
    """How many pairs in all would show a ratio of `effect` with this probability.

    `spread` is the standard deviation of the log-ratios, as Comparison has it from the
    rounds so far. From the paired t test's power with normal quantiles,
    n = ((z_0.975 + z_power) spread / log effect)^2, and two pairs more for t's wider
    tails (Guenther 1981); never fewer than least_pairs(). ValueError for an effect of 1.
    """
    if effect <= 0 or effect == 1:
        raise ValueError(f"no number of pairs shows a ratio of {effect}")
    quantiles = NormalDist().inv_cdf(1 - LEVEL / 2) + NormalDist().inv_cdf(power)
    return max(least_pairs(), math.ceil((quantiles * spread / math.log(effect)) ** 2) + 2)


def compare_unpaired(a: Sequence[float], b: Sequence[float]) -> Comparison:
    """Compare values that do not belong together (two runs): Welch's interval of the log means.

    `pairs` is 0 and `p_sign_flip` None; Mann-Whitney decides.
    """
    if not a or not b:
        return Comparison(paired=False)
    ratios = _all_positive(a, b)
    x, y = ([math.log(v) if ratios else v for v in side] for side in (a, b))
    centre = fmean(y) - fmean(x)
    return judged(
        Comparison(
            effect=math.exp(centre) if ratios else None,
            ci95=_exp(_welch_interval(x, y)) if ratios and min(len(a), len(b)) > 1 else None,
            p_mann_whitney=mann_whitney_p(a, b),
            paired=False,
            smallest_p=smallest_mann_whitney_p(len(a), len(b)),
        ),
        centre,
    )


def judged_together(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons made of one metric, with Holm's adjusted p and verdicts that hold for all at once."""
    tested = [c for c in comparisons if c.deciding_p is not None]
    adjusted = iter(holm([c.deciding_p for c in tested if c.deciding_p is not None]))
    return [
        c if c.deciding_p is None else _adjusted(c, next(adjusted), family=len(tested)) for c in comparisons
    ]


def least_pairs(family: int = 1) -> int:
    """The fewest pairs with which the sign-flip test can reach 5% among `family` comparisons: 6 for one."""
    pairs = 1
    while smallest_sign_flip_p(pairs) * family > LEVEL:
        pairs += 1
    return pairs


def judged(comparison: Comparison, centre: float) -> Comparison:
    """With its verdict when it is the only comparison."""
    p, interval = comparison.deciding_p, comparison.ci95
    excludes_one = interval is None or not interval[0] <= 1 <= interval[1]
    if comparison.smallest_p > LEVEL:
        verdict: Verdict = "too few rounds"
    elif p is not None and p <= LEVEL and excludes_one:
        verdict = "b higher" if centre > 0 else "b lower"
    else:
        verdict = "no difference shown"
    return replace(comparison, verdict=verdict, p_holm=p)


def _adjusted(comparison: Comparison, p: float, family: int) -> Comparison:
    """An adjusted p is never smaller, so a verdict can only be taken back."""
    verdict = comparison.verdict
    if comparison.smallest_p * family > LEVEL:
        verdict = "too few rounds"
    elif p > LEVEL:
        verdict = "no difference shown"
    return replace(comparison, verdict=verdict, p_holm=p)


def _all_positive(*sides: Sequence[float]) -> bool:
    return all(value > 0 for side in sides for value in side)


def _interval(differences: Sequence[float]) -> Interval:
    mean = fmean(differences)
    return t_interval(n=len(differences), mean=mean, sd=deviation(differences, mean))


def _welch_interval(x: Sequence[float], y: Sequence[float]) -> Interval:
    """Welch's interval of mean(y) - mean(x), with Satterthwaite's degrees of freedom."""
    vx, vy = variance(x) / len(x), variance(y) / len(y)
    shift, error = fmean(y) - fmean(x), math.sqrt(vx + vy)
    if error == 0:
        return (shift, shift)
    df = (vx + vy) ** 2 / (vx**2 / (len(x) - 1) + vy**2 / (len(y) - 1))
    half = t_quantile(1 - LEVEL, df) * error
    return (shift - half, shift + half)


def _exp(interval: Interval) -> Interval:
    # The interval of two log-ratios can reach past what a float holds.
    low, high = (math.exp(min(max(end, -700.0), 700.0)) for end in interval)
    return (low, high)
