"""What is said about the values of one metric in one state."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul

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


def summarise(values: Iterable[float], zeros: int = 0) -> Summary:
    """Summary of `values` and of so many zeros beside them; ValueError when there is nothing.

    What does not occur in most rounds costs what it occurs.
    """
    held = sorted(values)
    n = len(held) + zeros
    if not n:
        raise ValueError("no values to summarise")
    mean = math.fsum(held) / n
    middle = mad = 0.0
    if zeros <= len(held):  # more zeros than values: no need to look
        middle = _median(held, 0.0, zeros)
        mad = _median(sorted([abs(value - middle) for value in held]), abs(middle), zeros)
    sd = _deviation(held, mean, zeros) if n > 1 else None
    ends = (held[0], held[-1]) if held else (0.0, 0.0)
    return Summary(
        n=n,
        mean=mean,
        sd=sd,
        ci95=None if sd is None else t_interval(n=n, mean=mean, sd=sd),
        median=middle,
        mad=mad,
        min=min(ends[0], 0.0) if zeros else ends[0],
        max=max(ends[1], 0.0) if zeros else ends[1],
    )


def deviation(values: Sequence[float], mean: float) -> float:
    """Sample standard deviation (divisor n - 1) about the known `mean`, for two values or more.

    statistics.stdev works in exact fractions: 50 times slower, the same but for the last digits.
    """
    return _deviation(values, mean, 0)


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


def _deviation(values: Sequence[float], mean: float, zeros: int) -> float:
    away = [value - mean for value in values]
    return math.sqrt((math.fsum(map(mul, away, away)) + zeros * mean**2) / (len(values) + zeros - 1))


def _median(ordered: Sequence[float], value: float, times: int) -> float:
    """The median of the `ordered` values and of `value`, so many times, beside them."""
    before, n = bisect_left(ordered, value) if times else 0, len(ordered) + times

    def at(index: int) -> float:
        if before <= index < before + times:
            return value
        return ordered[index if index < before else index - times]

    return at(n // 2) if n % 2 else (at(n // 2 - 1) + at(n // 2)) / 2
