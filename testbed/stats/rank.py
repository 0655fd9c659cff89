"""Two tests that assume no distribution: exact sign flips of pairs, and Mann-Whitney."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist

_LATTICE = 1 << 16
_MOST_ENUMERATED_PAIRS = 20
_MOST_COUNTED_PAIRS = 128
_MOST_EXACT_RANKS = 50


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p of Fisher's sign-flip (permutation) test: no effect means each sign was a coin toss.

    The share of all 2^n sign assignments whose sum is at least as far from 0 as the
    observed one. Exact up to 20 pairs; up to 128 exact for differences rounded to 2^-16
    of the sum of their sizes (what rounding leaves open counts against the effect);
    above that by the sum's normal limit.
    """
    sizes = [abs(value) for value in differences if value]
    if not sizes:
        return 1.0
    observed = abs(math.fsum(differences))
    if len(sizes) > _MOST_COUNTED_PAIRS:
        return 2 * NormalDist().cdf(-observed / math.hypot(*sizes))
    # A sum of signs is the total less twice what is flipped: count the subsets small enough
    # to leave the sum at the observed one or above; the other tail is their mirror image.
    most_flipped = (math.fsum(sizes) - observed) / 2
    if len(sizes) <= _MOST_ENUMERATED_PAIRS:
        # Sums that are equal but for floating point are equal.
        count = _subsets_enumerated(sizes, most_flipped + 1e-12 * math.fsum(sizes))
    else:
        scale = _LATTICE / math.fsum(sizes)
        steps = [round(size * scale) for size in sizes]
        count = _subsets_on_lattice(steps, math.ceil(most_flipped * scale) + len(steps) // 2)
    return min(1.0, 2 * count / (1 << len(sizes)))


def smallest_sign_flip_p(pairs: int) -> float:
    """The smallest p that `pairs` pairs can reach: all signs alike, either way."""
    return min(1.0, 2.0 ** (1 - pairs))


def smallest_mann_whitney_p(m: int, n: int) -> float:
    """The smallest p that `m` and `n` untied values can reach: one side wholly above the other."""
    return min(1.0, 2 / math.comb(m + n, m))


def mann_whitney_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p of the Mann-Whitney U test; 1.0 when a side is empty.

    Exact (Mann and Whitney 1947) up to 50 values in all without ties, else the normal
    approximation with tie and continuity correction.
    """
    if not a or not b:
        return 1.0
    n, others = len(a) + len(b), sorted(b)
    # U counts the pairs in which a's value is the larger one, a tie as half.
    u = sum(bisect_left(others, value) + bisect_right(others, value) for value in a) / 2
    u = max(u, len(a) * len(b) - u)
    counts = Counter([*a, *b])
    if len(counts) == n <= _MOST_EXACT_RANKS:
        return _exact_u_tail(len(a), len(b), round(u))
    ties = sum(count**3 - count for count in counts.values())
    variance = len(a) * len(b) / 12 * (n + 1 - ties / (n * (n - 1)))
    if variance <= 0:
        return 1.0
    z = (u - len(a) * len(b) / 2 - 0.5) / math.sqrt(variance)
    return min(1.0, 2 * NormalDist().cdf(-z))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values (Holm 1979), in the order given."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for done, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _subsets_enumerated(sizes: Sequence[float], most: float) -> int:
    """How many subsets have a sum of at most `most`: all sums of one half, looked up among the other's."""
    half = len(sizes) // 2
    left, right = (sorted(_subset_sums(part)) for part in (sizes[:half], sizes[half:]))
    return sum(bisect_right(right, most - total) for total in left)


def _subset_sums(sizes: Sequence[float]) -> list[float]:
    sums = [0.0]
    for size in sizes:
        sums += [total + size for total in sums]
    return sums


def _subsets_on_lattice(steps: Sequence[int], most: int) -> int:
    """How many subsets of `steps` have a sum of at most `most`.

    The generating polynomial product(1 + x^step) lives in one big integer, a
    coefficient every `width` bits. It may be cut above `most`; the sum of its
    coefficients is then the integer modulo 2^width - 1, as a sum of digits is modulo 9.
    """
    width = len(steps) + 1
    cut = (1 << (width * (most + 1))) - 1
    polynomial = 1
    for step in steps:
        polynomial += polynomial << (width * step)
        polynomial &= cut
    return polynomial % ((1 << width) - 1)


def _exact_u_tail(m: int, n: int, u: int) -> float:
    """min(1, 2 P(U >= u)) without ties: U's counts are the coefficients of a Gaussian binomial."""
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for top in range(m * n, n + i - 1, -1):
            counts[top] -= counts[top - n - i]
        for top in range(i, m * n + 1):
            counts[top] += counts[top - i]
    return min(1.0, 2 * sum(counts[u:]) / math.comb(m + n, m))
