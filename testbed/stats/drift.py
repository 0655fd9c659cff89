"""Did the values change over the run, whatever the state?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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


def drift(series: Sequence[Sequence[tuple[int, float]]]) -> Drift | None:
    """Drift of the series (one for each state) of (position in the run, value).

    None with fewer than three degrees of freedom, or where a value is not positive.
    """
    held = [points for points in series if points]
    df = sum(len(points) - 1 for points in held) - 1
    if df < 3 or any(value <= 0 for points in held for _, value in points):
        return None
    x, y = [], []
    for points in held:
        logs = [math.log(value) for _, value in points]
        x += _centred([float(position) for position, _ in points])
        y += _centred(logs)
    positions = [position for points in held for position, _ in points]
    return _fit(x, y, df, max(positions) - min(positions))


def _fit(x: Sequence[float], y: Sequence[float], df: int, span: int) -> Drift | None:
    sxx, sxy, syy = (math.fsum(u * v for u, v in zip(p, q, strict=True)) for p, q in ((x, x), (x, y), (y, y)))
    if sxx == 0:
        return None
    slope = sxy / sxx
    residual = max(0.0, syy - slope * sxy)
    error = math.sqrt(residual / df / sxx)
    if error == 0:
        return Drift(math.expm1(slope * span), 0.0 if slope else 1.0)
    return Drift(math.expm1(slope * span), t_two_sided_p(slope / error, df))


def _centred(values: Sequence[float]) -> list[float]:
    mean = fmean(values)
    return [value - mean for value in values]
