"""An effect adjusted for something else that disturbed the rounds: analysis of covariance on the pairs.

The differences d of the log figures of a pair are taken as effect + slope x, where x is by how much more
the second round was disturbed than the first. The effect is then what a pair of rounds disturbed alike
would show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from testbed.stats.compare import LEVEL, Comparison, judged
from testbed.stats.rank import mann_whitney_p, sign_flip_p, smallest_sign_flip_p
from testbed.stats.student import t_quantile, t_two_sided_p

LEAST_PAIRS = 10  # with fewer, choosing costs more than 5% allow
SLOPE_LEVEL = 0.01


@dataclass(frozen=True)
class Adjusted:
    """A comparison adjusted for `covariate`.

    slope: of the log ratio, for each unit of the covariate. balanced: whether the covariate itself is
    alike in both states as far as the pairs tell; where not, the state may bring it about, and the
    adjusted effect lacks what it does by that way.
    """

    covariate: str
    slope: float
    comparison: Comparison
    balanced: bool


def adjusted(
    a: Sequence[float], b: Sequence[float], covariates: Mapping[str, Sequence[float]]
) -> Adjusted | None:
    """Adjusted for the covariate that explains most, by a rule that does not look at the effect.

    `covariates`: name -> its difference b - a in each pair. One is taken when its slope is not chance
    (p at most 1% in all) and the interval gets narrower by it: both depend on the differences about
    their mean only. Going back to the plain effect where the covariate is not balanced would find
    effects that are not there: just then the plain one is the disturbance's (simulated: 7 to 10%
    instead of 5%). None without such a covariate, or where no ratio exists.
    """
    if len(a) < LEAST_PAIRS or min(*a, *b) <= 0:
        return None
    differences = [math.log(y / x) for x, y in zip(a, b, strict=True)]
    level = SLOPE_LEVEL / max(1, len(covariates))
    lines = {name: _Line.through(xs, differences) for name, xs in covariates.items() if _error(xs)}
    plain = t_quantile(1 - LEVEL, len(a) - 1) * _error(differences)
    held = {name: one for name, one in lines.items() if one.slope_p <= level and one.half < plain}
    if not held:
        return None
    name = min(held, key=lambda name: held[name].half)
    one = held[name]
    without = [d - one.slope * x for d, x in zip(differences, covariates[name], strict=True)]
    comparison = Comparison(
        effect=math.exp(one.effect),
        ci95=(math.exp(one.effect - one.half), math.exp(one.effect + one.half)),
        p_sign_flip=sign_flip_p(without),
        p_mann_whitney=mann_whitney_p(a, b),
        pairs=len(a),
        smallest_p=smallest_sign_flip_p(len(a)),
    )
    return Adjusted(name, one.slope, judged(comparison, one.effect), _balanced(covariates[name]))


@dataclass(frozen=True)
class _Line:
    """Least squares: the value at x = 0 with half its 95% interval, and the slope with its p."""

    effect: float
    half: float
    slope: float
    slope_p: float

    @classmethod
    def through(cls, xs: Sequence[float], ys: Sequence[float]) -> _Line:
        n, x_mean, y_mean = len(xs), fmean(xs), fmean(ys)
        sxx = math.fsum((x - x_mean) ** 2 for x in xs)
        slope = math.fsum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / sxx
        effect = y_mean - slope * x_mean
        rest = math.fsum((y - effect - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
        error = math.sqrt(rest / (n - 2))
        half = t_quantile(1 - LEVEL, n - 2) * error * math.sqrt(1 / n + x_mean**2 / sxx)
        slope_p = t_two_sided_p(slope * math.sqrt(sxx) / error, n - 2) if error else 0.0
        return cls(effect, half, slope, slope_p)


def _balanced(xs: Sequence[float]) -> bool:
    """Whether the mean of a covariate's differences may be 0."""
    return t_two_sided_p(fmean(xs) / _error(xs), len(xs) - 1) > LEVEL


def _error(values: Sequence[float]) -> float:
    """The standard error of the mean."""
    mean = fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
