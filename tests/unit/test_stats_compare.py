"""Comparisons and their tests, against scipy and statsmodels."""

import math
import random
from itertools import product

import pytest
import scipy.stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from testbed.stats.compare import compare_pairs, compare_unpaired, judged_together, least_pairs
from testbed.stats.drift import drift, line
from testbed.stats.rank import holm, mann_whitney_p, sign_flip_p


def every_sign(differences):
    """The sign-flip p by trying every assignment."""
    observed = abs(math.fsum(differences)) * (1 - 1e-12)
    sums = [
        abs(math.fsum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(total >= observed for total in sums) / len(sums)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9, 12])
def test_sign_flip_p_counts_every_assignment(n):
    rng = random.Random(n)
    for shift in (0.0, 0.5, 3.0):
        differences = [rng.gauss(shift, 1) for _ in range(n)]
        assert sign_flip_p(differences) == every_sign(differences)


@pytest.mark.parametrize("differences", [[1, 2, 3, -3], [1, 1, 1, 1, 1, 1], [0, 0, 2, -1, 5], [2, -2], [4]])
def test_sign_flip_p_with_ties_is_exact(differences):
    assert sign_flip_p(differences) == every_sign(differences)


def test_sign_flip_p_equals_scipy_permutation_test():
    rng = random.Random(5)
    a, b = [rng.gauss(10, 1) for _ in range(10)], [rng.gauss(10.6, 1) for _ in range(10)]
    reference = scipy.stats.permutation_test(
        ([y - x for x, y in zip(a, b, strict=True)],),
        sum,
        permutation_type="samples",
        n_resamples=math.inf,
    )
    assert sign_flip_p([y - x for x, y in zip(a, b, strict=True)]) == pytest.approx(reference.pvalue)


def test_sign_flip_p_beyond_enumeration_agrees_with_it():
    rng = random.Random(9)
    differences = [rng.gauss(0.4, 1) for _ in range(20)]
    enumerated = sign_flip_p(differences)
    assert sign_flip_p([*differences, 1e-9]) == pytest.approx(enumerated, rel=0.01)


def test_sign_flip_p_of_many_pairs_joins_its_normal_limit():
    rng = random.Random(3)
    differences = [rng.gauss(0.2, 1) for _ in range(129)]
    assert sign_flip_p(differences[:128]) == pytest.approx(sign_flip_p(differences), rel=0.5)
    assert sign_flip_p([1.0] * 60) == pytest.approx(2 / 2**60)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (3, 3), (6, 6), (12, 9), (25, 25)])
def test_mann_whitney_p_without_ties_equals_scipy_exact(sizes):
    rng = random.Random(sum(sizes))
    a, b = [rng.gauss(0, 1) for _ in range(sizes[0])], [rng.gauss(0.7, 1) for _ in range(sizes[1])]
    expected = scipy.stats.mannwhitneyu(a, b, method="exact").pvalue
    assert mann_whitney_p(a, b) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sizes", [(3, 3), (6, 6), (12, 9), (40, 45)])
def test_mann_whitney_p_with_ties_equals_scipy_asymptotic(sizes):
    rng = random.Random(sum(sizes))
    a, b = [rng.randint(0, 4) for _ in range(sizes[0])], [rng.randint(1, 6) for _ in range(sizes[1])]
    expected = scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    assert mann_whitney_p(a, b) == pytest.approx(expected, rel=1e-9)


def test_holm_equals_statsmodels():
    rng = random.Random(2)
    for count in (1, 2, 3, 8):
        p_values = [rng.choice([0.03, rng.random() * 0.2]) for _ in range(count)]
        assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


@pytest.mark.parametrize("n", [2, 3, 6, 30])
def test_effect_and_interval_equal_a_t_interval_of_log_ratios(n):
    rng = random.Random(n)
    a = [rng.gauss(100, 3) for _ in range(n)]
    b = [rng.gauss(105, 3) for _ in range(n)]
    logs = [math.log(y / x) for x, y in zip(a, b, strict=True)]
    low, high = DescrStatsW(logs).tconfint_mean()
    comparison = compare_pairs(a, b)
    assert comparison.effect == pytest.approx(scipy.stats.gmean(b) / scipy.stats.gmean(a))
    assert comparison.ci95 == pytest.approx((math.exp(low), math.exp(high)), rel=1e-9)
    assert comparison.pairs == n


def test_unpaired_interval_is_welchs():
    rng = random.Random(8)
    a, b = [rng.gauss(100, 3) for _ in range(7)], [rng.gauss(104, 9) for _ in range(11)]
    means = CompareMeans(DescrStatsW([math.log(v) for v in b]), DescrStatsW([math.log(v) for v in a]))
    low, high = means.tconfint_diff(usevar="unequal")
    comparison = compare_unpaired(a, b)
    assert comparison.ci95 == pytest.approx((math.exp(low), math.exp(high)), rel=1e-9)
    assert comparison.p_sign_flip is None
    assert not comparison.paired


@pytest.mark.parametrize("pairs", [0, 1, 2, 3, 5])
def test_fewer_than_six_pairs_show_nothing_however_large_the_effect(pairs):
    assert compare_pairs([100.0] * pairs, [200.0 + i for i in range(pairs)]).verdict == "too few rounds"


def test_six_pairs_can_show_a_difference_in_both_directions():
    a, b = [100.0, 101, 99, 100, 102, 98], [110.0, 111, 108, 110, 113, 107]
    assert compare_pairs(a, b).verdict == "b higher"
    assert compare_pairs(b, a).verdict == "b lower"
    assert compare_pairs(a, b).p_sign_flip == 2 / 64


def test_three_comparisons_need_seven_pairs():
    higher = compare_pairs([100.0] * 6, [110.0 + i for i in range(6)])
    assert [c.verdict for c in judged_together([higher])] == ["b higher"]
    assert [c.verdict for c in judged_together([higher] * 3)] == ["too few rounds"] * 3
    assert [least_pairs(family) for family in (1, 2, 3, 4)] == [6, 7, 7, 8]


def test_holm_takes_back_a_verdict_that_only_holds_alone():
    a = [100.0] * 8
    weak = compare_pairs(a, [101.0, 102, 101.5, 102.5, 103, 101.2, 102.2, 99.0])
    none = compare_pairs(a, [101.0, 99, 101, 99, 101, 99, 100.5, 99.4])
    assert weak.verdict == "b higher"
    assert weak.p_sign_flip is not None and 0.02 < weak.p_sign_flip * 3 / 3 <= 0.05
    together = judged_together([weak, none, none])
    assert [c.verdict for c in together] == ["no difference shown"] * 3
    assert together[0].p_holm == pytest.approx(3 * weak.p_sign_flip)


def test_counts_of_zero_have_no_ratio_but_a_verdict():
    comparison = compare_pairs([400.0, 410, 395, 402, 399, 407], [0.0] * 6)
    assert (comparison.effect, comparison.ci95, comparison.verdict) == (None, None, "b lower")


def test_equal_states_show_no_difference():
    comparison = compare_pairs([100.0] * 12, [100.0] * 12)
    assert (comparison.effect, comparison.p_sign_flip, comparison.verdict) == (
        1.0,
        1.0,
        "no difference shown",
    )


def test_drift_is_the_slope_over_the_order_whatever_the_state():
    rng = random.Random(4)
    levels = {0: 100.0, 1: 130.0}
    order = {s: range(s, 24, 2) for s in levels}
    lines = [
        line(order[s], [levels[s] * (1 + 0.06 * i / 23) * rng.gauss(1, 0.005) for i in order[s]])
        for s in levels
    ]
    found = drift(lines)
    assert found is not None
    assert found.change == pytest.approx(0.06, abs=0.01)
    assert found.p < 0.001


def test_drift_of_one_state_equals_scipy_linregress():
    rng = random.Random(6)
    values = [rng.gauss(100, 2) for _ in range(10)]
    expected = scipy.stats.linregress(range(10), [math.log(value) for value in values])
    found = drift([line(range(10), values)])
    assert found is not None
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.change == pytest.approx(math.expm1(expected.slope * 9), rel=1e-9)


def test_drift_needs_enough_rounds():
    assert drift([line(range(3), [1.0, 2.0, 3.0])]) is None
