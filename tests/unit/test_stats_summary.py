"""Summaries and Student's interval, against scipy and against figures from the list."""

import math
import random
import statistics

import pytest
import scipy.special
import scipy.stats

from testbed.stats.student import incomplete_beta, t_quantile, t_two_sided_p
from testbed.stats.summary import summarise, t_interval

# "Why jumbograms beat BIG TCP on veth", net-next, 2026: rounds, mean, sd, low, high.
# Bitrates in Gbit/s and packets by size; only rows of sizes that occurred in every round.
PUBLISHED = [
    (84, 241.35, 7.17, 239.81, 242.91),
    (284, 252.56, 7.55, 251.67, 253.44),
    (84, 252.96, 7.36, 251.36, 254.55),
    (84, 252.21, 7.69, 250.54, 253.88),
    (125, 272.80, 2.42, 272.37, 273.23),
    (64, 251.64, 4.78, 250.45, 252.83),
    (84, 647034.43, 47311.70, 636767.16, 657301.70),
    (284, 616549.29, 18401.15, 614399.99, 618698.58),
    (284, 616754.45, 18448.43, 614599.64, 618909.26),
    (84, 617684.17, 17977.91, 613782.72, 621585.61),
    (84, 617721.74, 17990.11, 613817.65, 621625.83),
    (84, 615726.77, 18922.17, 611620.41, 619833.14),
    (84, 615912.33, 18781.42, 611836.51, 619988.15),
    (125, 6074.89, 487.24, 5988.63, 6161.14),
    (125, 652866.16, 6300.23, 651750.82, 653981.50),
    (125, 6454.82, 558.58, 6355.94, 6553.71),
    (125, 655050.50, 6269.06, 653940.67, 656160.32),
    (64, 614318.41, 11671.76, 611402.89, 617233.93),
    (64, 614633.78, 11755.14, 611697.43, 617570.13),
]
# Sizes that occurred in fewer rounds than the state had: (occurred, of, mean, sd, low, high).
PUBLISHED_WHERE_SEEN = [
    (81, 84, 406030.32, 144141.51, 374158.02, 437902.63),
    (82, 84, 401084.13, 150101.57, 368103.20, 434065.07),
]


@pytest.mark.parametrize("row", PUBLISHED)
def test_published_interval_follows_from_rounds_mean_and_sd(row):
    n, mean, sd, low, high = row
    # Mean and sd were printed with two decimals, so the ends are good to about one unit of the last.
    assert t_interval(n=n, mean=mean, sd=sd) == pytest.approx((low, high), abs=0.016)


@pytest.mark.parametrize("row", PUBLISHED_WHERE_SEEN)
def test_published_interval_of_a_rare_size_counts_only_rounds_where_it_occurred(row):
    seen, rounds, mean, sd, low, high = row
    assert t_interval(n=seen, mean=mean, sd=sd) == pytest.approx((low, high), abs=0.02)
    assert t_interval(n=rounds, mean=mean, sd=sd) != pytest.approx((low, high), abs=100)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5.5, 7, 11, 29, 83, 283, 1000, 1e5])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_t_quantile_equals_scipy(df, level):
    expected = scipy.stats.t.ppf((1 + level) / 2, df)
    assert t_quantile(level, df) == pytest.approx(expected, rel=1e-9)


def test_t_tail_and_incomplete_beta_equal_scipy_on_random_points():
    rng = random.Random(1)
    for _ in range(500):
        t, df = rng.uniform(0, 40), rng.uniform(0.5, 300)
        assert t_two_sided_p(t, df) == pytest.approx(2 * scipy.stats.t.sf(t, df), rel=1e-9, abs=1e-14)
        a, b, x = rng.uniform(0.1, 60), rng.uniform(0.1, 60), rng.random()
        expected = scipy.special.betainc(a, b, x)
        assert incomplete_beta(a, b, x) == pytest.approx(expected, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("n", [2, 3, 6, 84])
def test_summary_equals_scipy_and_statistics(n):
    rng = random.Random(n)
    values = [round(rng.gauss(100, 2)) for _ in range(n)]  # with ties
    summary = summarise(values)
    low, high = scipy.stats.t.interval(
        0.95, n - 1, loc=statistics.mean(values), scale=scipy.stats.sem(values)
    )
    assert summary.ci95 == pytest.approx((low, high), rel=1e-9)
    assert summary.sd == pytest.approx(statistics.stdev(values), rel=1e-12)
    assert summary.mad == pytest.approx(scipy.stats.median_abs_deviation(values))
    assert (summary.n, summary.min, summary.max) == (n, min(values), max(values))


def test_one_value_has_no_spread():
    summary = summarise([5.0])
    assert (summary.mean, summary.sd, summary.ci95, summary.median, summary.mad) == (
        5.0,
        None,
        None,
        5.0,
        0.0,
    )
    assert t_interval(n=1, mean=5.0, sd=0.0) == (-math.inf, math.inf)


def test_no_value_is_refused():
    with pytest.raises(ValueError, match="no values"):
        summarise([])


@pytest.mark.parametrize("values", [[3.0], [1.0, 4.0], [2.0, 9.0, 9.5], [-2.0, 5.0, 7.0]])
@pytest.mark.parametrize("zeros", [0, 1, 2, 3, 10])
def test_zeros_that_are_only_counted_are_summarised_as_if_they_stood_there(values, zeros):
    counted, written = summarise(values, zeros), summarise([*values, *[0.0] * zeros])
    assert (counted.n, counted.median, counted.mad) == (written.n, written.median, written.mad)
    assert (counted.min, counted.max, counted.mean) == (written.min, written.max, written.mean)
    assert counted.sd == pytest.approx(written.sd)
