"""What is said about the values of one metric in one state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean, median

from testbed.stats.student import t_quantile


@dataclass(frozen=True)
class Summary:
    """One metric over the rounds of one state, in the metric's unit.

    With one round there is no spread to speak of: `sd` and `ci95` are None.
    `mad` is the median absolute deviation from the median, not scaled.
    """

    n: int
    mean: float
    sd: float | None
    ci95: tuple[float, float] | None
    median: float
    mad: float
    min: float
    max: float


def summarise(values: Iterable[float]) -> Summary:
    """Summary of `values`; ValueError when there are none."""
    held = list(values)
    if not held:
        raise ValueError("no values to summarise")
    n, mean, middle = len(held), fmean(held), median(held)
    sd = deviation(held, mean) if n > 1 else None
    return Summary(
        n=n,
        mean=mean,
        sd=sd,
        ci95=None if sd is None else t_interval(n=n, mean=mean, sd=sd),
        median=middle,
        mad=median([abs(value - middle) for value in held]),
        min=min(held),
        max=max(held),
    )


def deviation(values: Sequence[float], mean: float) -> float:
    """Sample standard deviation (divisor n - 1) about the known `mean`, for two values or more.

    statistics.stdev works in exact fractions: 50 times slower, the same but for the last digits.
    """
    away = [value - mean for value in values]
    return math.sqrt(math.fsum(map(mul, away, away)) / (len(values) - 1))


def t_interval(*, n: int, mean: float, sd: float, level: float = 0.95) -> tuple[float, float]:
    """Student's interval of a mean: mean ± t(n - 1) sd / sqrt(n).

    `sd` is the sample's standard deviation (divisor n - 1). One value bounds
    nothing: (-inf, inf). ValueError for n < 1, a negative sd or a level outside 0..1.
    """
    if n < 1 or sd < 0 or not 0 < level < 1:
        raise ValueError(f"no interval for n={n}, sd={sd}, level={level}")
    if n == 1:
        return (-math.inf, math.inf)
    half = t_quantile(level, n - 1) * sd / math.sqrt(n)
    return (mean - half, mean + half)
