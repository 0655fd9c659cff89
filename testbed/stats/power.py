"""Where the variance of a comparison lies, what a pair of rounds costs, and how to spend time better.

The logarithm of a figure of one round is taken as the sum of what both rounds of a block share (drift,
which cancels in pairs), of what differs from round to round however long each is, and of what varies
within a round and averages out over its seconds. So the difference of a pair of rounds of T seconds has
the variance between + within / T, and R pairs know the effect to t(R - 1) sqrt(that / R).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from testbed.stats.compare import LEVEL, least_pairs
from testbed.stats.student import t_quantile

# Lengths of rounds that are weighed against each other, in seconds.
LENGTHS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0)
MOST_PAIRS = 100_000


@dataclass(frozen=True)
class Parts:
    """Variances of the logarithm of a figure, as `pairs` pairs of rounds of `measured_s` seconds tell them.

    drift: of what the rounds of a block share. between: of a pair's difference, whatever the length of
    the rounds. within: what it has beside that, times seconds; None where the rounds tell nothing about
    it, `between` is then for rounds of this length only.
    """

    pairs: int
    measured_s: float
    drift: float
    between: float
    within: float | None

    def pair(self, seconds: float) -> float:
        """The variance of the difference of a pair of rounds of so many seconds."""
        return self.between + (self.within or 0.0) / seconds

    def shares(self) -> dict[str, float]:
        """Which share of a single round's variance is drift, between rounds, and within them."""
        parts = {"drift": self.drift, "between": self.between / 2}
        if self.within is not None:
            parts["within"] = self.within / self.measured_s / 2
        whole = math.fsum(parts.values())
        return {name: part / whole for name, part in parts.items()} if whole else parts

    def half_width(self, pairs: int, seconds: float) -> float:
        """Half the width of the 95% interval to expect, as compare.half_width() tells it."""
        half = t_quantile(1 - LEVEL, pairs - 1) * math.sqrt(self.pair(seconds) / pairs)
        return math.sinh(min(half, 700.0))


@dataclass(frozen=True)
class Cost:
    """Seconds that one block takes beside the measured ones, for all its `rounds` together."""

    rounds: int
    overhead_s: float
    omit_s: float

    def block(self, seconds: float, omit: bool = True) -> float:
        return self.overhead_s + self.rounds * seconds + (self.omit_s if omit else 0.0)


@dataclass(frozen=True)
class Plan:
    """So many pairs of rounds of so many seconds, with the warm-up of each or without."""

    pairs: int
    measured_s: float
    omit: bool
    time_s: float
    half_width: float


@dataclass
class Inside:
    """Sums over the rounds of a state: how the rate varied within them."""

    squares: float = 0.0
    freedom: int = 0

    def add(self, rates: Sequence[float], interval_s: float | None) -> None:
        """One round's rates in its intervals of so many seconds."""
        if interval_s and len(rates) > 1 and min(rates) > 0:
            self.squares += variance(map(math.log, rates)) * (len(rates) - 1) * interval_s
            self.freedom += len(rates) - 1

    @property
    def per_second(self) -> float | None:
        """The variance of the logarithm of a mean over one second; None where no round told it.

        Intervals are taken as independent: what varies more slowly counts as between rounds.
        """
        return self.squares / self.freedom if self.freedom else None


def parts(
    a: Sequence[float], b: Sequence[float], measured_s: float, within: Sequence[float | None] = (None, None)
) -> Parts | None:
    """From the figures of pairs of rounds; None with fewer than three, or where one is not positive.

    `within`: Inside.per_second of each of the two states.
    """
    if len(a) != len(b) or len(a) < 3 or min(*a, *b) <= 0:
        return None
    x, y = ([math.log(value) for value in side] for side in (a, b))
    whole = variance([second - first for first, second in zip(x, y, strict=True)])
    drift = (variance(x) + variance(y) - whole) / 2  # the covariance of the two
    told = [one for one in within if one is not None]
    inside = min(math.fsum(told), whole * measured_s) if len(told) == len(within) else None
    return Parts(len(a), measured_s, max(0.0, drift), max(0.0, whole - (inside or 0.0) / measured_s), inside)


def warmup_bias(a: Sequence[float], b: Sequence[float]) -> float | None:
    """How far the warm-up may change the ratio b/a, as a logarithm; None where it is shown to, or unknown.

    `a` and `b`: for each pair, the rate of the warm-up over that of the measured seconds, in each state.
    What both states do alike cancels. It is the far end of the 95% interval, if 0 is within.
    """
    if len(a) != len(b) or len(a) < 3 or min(*a, *b) <= 0:
        return None
    changes = [math.log(y / x) for x, y in zip(a, b, strict=True)]
    mean = abs(fmean(changes))
    half = t_quantile(1 - LEVEL, len(changes) - 1) * math.sqrt(variance(changes) / len(changes))
    return mean + half if mean <= half else None


def plan_for_target(
    found: Parts, cost: Cost, target: float, *, family: int = 1, bias: float | None = None
) -> Plan | None:
    """The plan that takes least time to know the effect to +- `target` (a fraction); None beyond MOST_PAIRS.

    `family`: how many comparisons are judged together. `bias`: see warmup_bias().
    """
    least = least_pairs(family)
    plans = []
    for seconds, omit in _ways(found, cost, bias):
        pairs = _pairs_for(found.pair(seconds), math.asinh(target), least)
        if pairs <= MOST_PAIRS:
            plans.append(_plan(found, cost, pairs, seconds, omit=omit))
    return min((one for one in plans if _harmless(one, cost, bias)), key=lambda one: one.time_s, default=None)


def plan_for_time(
    found: Parts, cost: Cost, budget_s: float, *, family: int = 1, bias: float | None = None
) -> Plan | None:
    """The plan that knows the effect best within the time; None where it is too short for any."""
    plans = []
    for seconds, omit in _ways(found, cost, bias):
        pairs = min(MOST_PAIRS, int(budget_s / cost.block(seconds, omit)))
        if pairs >= least_pairs(family):
            plans.append(_plan(found, cost, pairs, seconds, omit=omit))
    held = (one for one in plans if _harmless(one, cost, bias))
    return min(held, key=lambda one: one.half_width, default=None)


def _plan(found: Parts, cost: Cost, pairs: int, seconds: float, *, omit: bool) -> Plan:
    return Plan(pairs, seconds, omit, pairs * cost.block(seconds, omit), found.half_width(pairs, seconds))


def _ways(found: Parts, cost: Cost, bias: float | None) -> Iterator[tuple[float, bool]]:
    """Length of a round and whether it has its warm-up: not far from what was measured.

    A quarter to eight times its length, where it is known what varies within rounds.
    """
    near = [one for one in LENGTHS if found.measured_s / 4 <= one <= found.measured_s * 8]
    lengths = dict.fromkeys([found.measured_s, *(near if found.within is not None else [])])
    for seconds in lengths:
        yield seconds, True
        if bias is not None and cost.omit_s:
            yield seconds, False


def _harmless(plan: Plan, cost: Cost, bias: float | None) -> bool:
    """A warm-up that counts must not be able to move the effect out of the interval."""
    share = min(1.0, cost.omit_s / cost.rounds / plan.measured_s)
    return plan.omit or (bias is not None and bias * share <= plan.half_width)


def _pairs_for(pair: float, half: float, least: int) -> int:
    """The fewest pairs, `least` or more, whose t interval is within +- `half`; above MOST_PAIRS any such."""

    def wide(pairs: int) -> bool:
        return t_quantile(1 - LEVEL, pairs - 1) ** 2 * pair / pairs > half**2

    low, high = least - 1, least
    while wide(high) and high <= MOST_PAIRS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high
