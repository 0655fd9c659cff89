"""The boot as a level: rounds of one boot are alike in ways that rounds of another boot are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from testbed.stats.summary import deviation, t_interval


@dataclass(frozen=True)
class Levels:
    """Standard deviations within and between boots, in the values' unit; None where unknown.

    From the mean squares of a one-way analysis of variance with random boots
    (Searle, Casella, McCulloch, Variance Components, 1992, 3.6): between boots it is
    what the means vary beyond what the rounds within account for, never below 0.
    """

    boots: int
    within: float | None
    between: float | None


def levels(boots: Sequence[Sequence[float]]) -> Levels:
    """The two levels of `boots`, the values of one each; empty ones are left out."""
    held = [values for values in boots if values]
    n, k = sum(map(len, held)), len(held)
    if n <= k:
        return Levels(k, None, None)
    means = [fmean(values) for values in held]
    inside = math.fsum(
        (value - mean) ** 2 for values, mean in zip(held, means, strict=True) for value in values
    )
    within = inside / (n - k)
    if k < 2:
        return Levels(k, math.sqrt(within), None)
    whole = math.fsum(len(values) * mean for values, mean in zip(held, means, strict=True)) / n
    outside = math.fsum(len(values) * (mean - whole) ** 2 for values, mean in zip(held, means, strict=True))
    size = (n - sum(len(values) ** 2 for values in held) / n) / (k - 1)
    between = (outside / (k - 1) - within) / size
    return Levels(k, math.sqrt(within), math.sqrt(max(0.0, between)))


def boot_interval(ratios: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """95% interval of a ratio with the pair of boots as the unit; None with fewer than two.

    `ratios` are the ratios b/a of the pairs, those of one pair of boots together. Each
    pair of boots counts once, by its mean log-ratio: Student's interval of those.
    """
    means = [fmean(map(math.log, held)) for held in ratios if held]
    if len(means) < 2:
        return None
    centre = fmean(means)
    low, high = t_interval(n=len(means), mean=centre, sd=deviation(means, centre))
    return math.exp(max(low, -700.0)), math.exp(min(high, 700.0))
