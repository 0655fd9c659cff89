"""Did the values change over the run, whatever the state?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean

from testbed.stats.student import t_two_sided_p


@dataclass(frozen=True)
class Drift:
    """A straight line through the values over the order of execution, each state about its own mean.

    `change` is the line's last value over its first as a ratio less 1 (0.06: up 6% over
    the run); `p` is the two-sided t test of its slope (ordinary least squares).
    """

    change: float
    p: float


def drift(series: Sequence[tuple[Sequence[int], Sequence[float]]]) -> Drift | None:
    """Drift of the series, one for each state: positions in the run, and the values there.

    None with fewer than three degrees of freedom, or where a value is not positive.
    """
    held = [(positions, values) for positions, values in series if values]
    df = sum(len(values) - 1 for _, values in held) - 1
    if df < 3 or any(min(values) <= 0 for _, values in held):
        return None
    x: list[float] = []
    y: list[float] = []
    for positions, values in held:
        x += _centred(positions)
        y += _centred([math.log(value) for value in values])
    ends = [end for positions, _ in held for end in (min(positions), max(positions))]
    return _fit(x, y, df, max(ends) - min(ends))


def _fit(x: Sequence[float], y: Sequence[float], df: int, span: int) -> Drift | None:
    sxx, sxy, syy = (math.fsum(map(mul, p, q)) for p, q in ((x, x), (x, y), (y, y)))
    if sxx == 0:
        return None
    slope = sxy / sxx
    residual = max(0.0, syy - slope * sxy)
    error = math.sqrt(residual / df / sxx)
    if error == 0:
        return Drift(math.expm1(slope * span), 0.0 if slope else 1.0)
    return Drift(math.expm1(slope * span), t_two_sided_p(slope / error, df))


def _centred(values: Sequence[float] | Sequence[int]) -> list[float]:
    mean = fmean(values)
    return [value - mean for value in values]
