"""Where the variance lies, and what plans follow from it."""

import math
import random
from statistics import fmean

import pytest

from testbed.stats.power import Cost, Inside, Parts, parts, plan_for_target, plan_for_time, warmup_bias

COST = Cost(rounds=2, overhead_s=1.2, omit_s=2.0)


def measured(pairs, seconds, *, drift=0.0, between=0.0, within=0.0, seed=1, interval_s=0.25):
    """Two equal states on a simulated machine: standard deviations of logarithms, `within` for a second."""
    rng = random.Random(seed)
    sides, insides = ([], []), (Inside(), Inside())
    for _ in range(pairs):
        block = rng.gauss(0, drift)
        for side, inside in zip(sides, insides, strict=True):
            level = block + rng.gauss(0, between)
            noise = within / math.sqrt(interval_s)
            rates = [math.exp(level + rng.gauss(0, noise)) for _ in range(round(seconds / interval_s))]
            inside.add(rates, interval_s)
            side.append(math.exp(fmean(map(math.log, rates))))
    return parts(*sides, seconds, [inside.per_second for inside in insides])


def test_the_parts_are_those_that_the_rounds_were_made_of():
    found = measured(1500, 2, drift=0.05, between=0.02, within=0.03)
    assert found.drift == pytest.approx(0.05**2, rel=0.15)
    assert found.between == pytest.approx(2 * 0.02**2, rel=0.15)
    assert found.within == pytest.approx(2 * 0.03**2, rel=0.05)
    whole = 0.05**2 + 0.02**2 + 0.03**2 / 2
    assert found.shares()["drift"] == pytest.approx(0.05**2 / whole, rel=0.15)
    assert sum(found.shares().values()) == pytest.approx(1)


def test_what_varies_more_slowly_within_rounds_never_counts_twice():
    within_alone = parts([1.0, 1.01, 0.99, 1.0], [1.0, 1.0, 1.01, 0.99], 2, [9.0, 9.0])
    assert (within_alone.between, within_alone.pair(2)) == (0.0, pytest.approx(0.0002, rel=0.01))


@pytest.mark.parametrize("values", [([1.0, 2.0], [1.0, 2.0]), ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])])
def test_too_few_rounds_or_a_zero_have_no_parts(values):
    assert parts(*values, 2) is None


def test_the_expected_half_width_is_what_simulated_runs_have():
    from testbed.stats.compare import half_width

    rng = random.Random(3)
    found = Parts(8, 2, 0.0, between=2 * 0.02**2, within=None)

    def simulated():
        sides = ([math.exp(rng.gauss(0, 0.02)) for _ in range(8)] for _ in range(2))
        return half_width(*sides)

    assert fmean(simulated() for _ in range(2000)) == pytest.approx(found.half_width(8, 2), rel=0.05)


def test_variance_between_rounds_asks_for_many_short_ones_and_within_for_long_ones():
    between = Parts(8, 2, 0.0, between=0.002, within=0.0)
    within = Parts(8, 2, 0.0, between=0.0, within=0.004)
    assert plan_for_time(between, COST, 60).measured_s == 1
    assert plan_for_time(within, COST, 300).measured_s > 2
    assert plan_for_target(within, COST, 0.02).measured_s > 2


def test_a_plan_keeps_its_promise_and_the_time():
    found = measured(12, 2, between=0.03, within=0.02)
    time_s = 8 * COST.block(2)
    best = plan_for_time(found, COST, time_s)
    assert best.time_s <= time_s
    assert best.half_width <= found.half_width(8, 2)
    plan = plan_for_target(found, COST, 0.01)
    assert plan.half_width <= 0.01
    assert found.half_width(plan.pairs - 1, plan.measured_s) > 0.01
    assert plan_for_time(found, COST, 5) is None
    assert plan_for_target(found, COST, 1e-6) is None


def test_the_length_stays_where_it_is_not_known_what_varies_within():
    found = Parts(8, 2, 0.0, between=0.002, within=None)
    assert plan_for_time(found, COST, 60).measured_s == 2


def test_a_warm_up_counts_only_where_it_cannot_move_the_effect_out_of_its_interval():
    found = Parts(8, 2, 0.0, between=0.002, within=0.0)
    assert plan_for_time(found, COST, 45, bias=None).omit
    assert plan_for_time(found, COST, 45, bias=0.5).omit
    fewer_seconds = plan_for_time(found, COST, 45, bias=0.01)
    assert (fewer_seconds.omit, fewer_seconds.pairs) == (False, int(45 / 3.2))


def test_a_warm_up_that_differs_between_the_states_is_kept():
    rng = random.Random(5)
    alike = [math.exp(rng.gauss(-0.1, 0.02)) for _ in range(8)]
    slower = [one * math.exp(rng.gauss(-0.2, 0.01)) for one in alike]
    same = [one * math.exp(sign * 0.01) for one, sign in zip(alike, [1, -1] * 4, strict=True)]
    assert warmup_bias(alike, slower) is None
    assert warmup_bias(alike, same) == pytest.approx(0.0089, rel=0.02)
    assert warmup_bias([1.0], [1.0]) is None
