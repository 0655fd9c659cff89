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


@dataclass(frozen=True)
class Line:
    """Sums about the means of one state's positions and of the logarithms of its values."""

    n: int
    sxx: float
    sxy: float
    syy: float
    first: int
    last: int


def line(positions: Sequence[int], values: Sequence[float]) -> Line | None:
    """The sums of one state's rounds; None without any, or where a value is not positive."""
    if not values or min(values) <= 0:
        return None
    x, y = _centred(positions), _centred([math.log(value) for value in values])
    sxx, sxy, syy = (math.fsum(map(mul, p, q)) for p, q in ((x, x), (x, y), (y, y)))
    return Line(len(values), sxx, sxy, syy, min(positions), max(positions))


def drift(lines: Sequence[Line | None]) -> Drift | None:
    """The common slope of the states' lines, over the whole span of their positions.

    None with fewer than three degrees of freedom, or where a line is None.
    """
    held = [one for one in lines if one is not None]
    df = sum(one.n - 1 for one in held) - 1
    sxx = math.fsum(one.sxx for one in held)
    if len(held) < len(lines) or df < 3 or sxx == 0:
        return None
    sxy, syy = math.fsum(one.sxy for one in held), math.fsum(one.syy for one in held)
    slope = sxy / sxx
    error = math.sqrt(max(0.0, syy - slope * sxy) / df / sxx)
    change = math.expm1(slope * (max(one.last for one in held) - min(one.first for one in held)))
    if error == 0:
        return Drift(change, 0.0 if slope else 1.0)
    return Drift(change, t_two_sided_p(slope / error, df))


def _centred(values: Sequence[float] | Sequence[int]) -> list[float]:
    mean = fmean(values)
    return [value - mean for value in values]
