"""Student's t distribution, without scipy: its tail and its quantile.

The tail is a regularised incomplete beta function (Abramowitz and Stegun 26.5.27),
evaluated by its continued fraction (DLMF 8.17.22) with Lentz's method.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_EPSILON = 1e-16
_MOST_TERMS = 10_000


@lru_cache(maxsize=4096)
def t_quantile(level: float, df: float) -> float:
    """The t with P(|T| <= t) = `level` at `df` degrees of freedom: 12.706 for 0.95 and 1.

    ValueError unless 0 < level < 1 and df > 0. Newton's steps, kept inside a bracket
    that halves where a step would leave it.
    """
    if not 0 < level < 1 or not df > 0:
        raise ValueError(f"no t quantile for level {level} and {df} degrees of freedom")
    tail = 1 - level
    low, high = 0.0, 1.0
    while t_two_sided_p(high, df) > tail:
        low, high = high, high * 2
    t = (low + high) / 2
    for _ in range(200):
        excess = t_two_sided_p(t, df) - tail
        low, high = (t, high) if excess > 0 else (low, t)
        step = t + excess / (2 * _density(t, df))
        following = step if low < step < high else (low + high) / 2
        if abs(following - t) <= 1e-14 * t:
            return following
        t = following
    return t


def t_two_sided_p(t: float, df: float) -> float:
    """P(|T| >= |t|) at `df` degrees of freedom."""
    if math.isinf(t):
        return 0.0
    square = t * t
    if square < 1:  # where df / (df + square) would round to 1
        return 1 - incomplete_beta(0.5, df / 2, square / (df + square))
    return incomplete_beta(df / 2, 0.5, df / (df + square))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    # The fraction converges fast only below the mean; above it, use I_x(a, b) = 1 - I_1-x(b, a).
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b))
    return front / (a * _fraction(a, b, x))


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction 1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22."""
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _MOST_TERMS):
        m = term // 2
        if term % 2:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _nonzero(1 + numerator * d)
        c = _nonzero(1 + numerator / c)
        value *= c * d
        if abs(c * d - 1) < _EPSILON:
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _density(t: float, df: float) -> float:
    log = -_log_beta(df / 2, 0.5) - math.log(df) / 2 - (df + 1) / 2 * math.log1p(t * t / df)
    return math.exp(log)
