"""Effects adjusted for what disturbed the rounds, on simulated machines."""

import math
import random

import pytest

from testbed.stats.compare import SHOWN, compare_pairs
from testbed.stats.covariance import adjusted


def simulated(seed, pairs, *, effect=0.0, slope=0.0, outliers=0.0):
    """Two states, 2% variation, 6% drift; `foreign` costs `slope` for each percent, `steal` nothing."""
    rng = random.Random(seed)
    values, foreign, steal = {"a": [], "b": []}, [], []
    for block in range(pairs):
        disturbed = {state: rng.expovariate(1 / 20) for state in "ab"}
        for state in "ab":
            log = 0.06 * block / pairs + rng.gauss(0, 0.02) - slope * disturbed[state]
            log += math.log(rng.uniform(0.7, 0.9)) if rng.random() < outliers else 0.0
            values[state].append(math.exp(log + (effect if state == "b" else 0.0)))
        foreign.append(disturbed["b"] - disturbed["a"])
        steal.append(rng.expovariate(1 / 2) - rng.expovariate(1 / 2))
    return values["a"], values["b"], {"foreign": foreign, "steal": steal}


def shares_of_differences(runs=600, **machine):
    """How often a difference is shown by the plain comparison, and by the adjusted one where there is one."""
    plain = deciding = 0
    for seed in range(runs):
        a, b, covariates = simulated(seed, **machine)
        verdict = compare_pairs(a, b).verdict
        found = adjusted(a, b, covariates)
        plain += verdict in SHOWN
        deciding += (found.comparison.verdict if found else verdict) in SHOWN
    return plain / runs, deciding / runs


@pytest.mark.parametrize(
    "machine", [{}, {"slope": 0.005}, {"slope": 0.002, "outliers": 0.05}], ids=["nothing", "much", "some"]
)
def test_equal_states_differ_in_at_most_6_percent_of_runs(machine):
    assert shares_of_differences(pairs=12, **machine)[1] <= 0.06


def test_an_effect_hidden_by_a_disturbance_is_found():
    plain, deciding = shares_of_differences(runs=200, pairs=12, effect=0.03, slope=0.005)
    assert plain < 0.2 < 0.8 < deciding


def test_the_slope_is_the_one_that_the_rounds_were_made_with_and_the_rule_never_sees_the_effect():
    a, b, covariates = simulated(1, 20, slope=0.005)
    found = adjusted(a, b, covariates)
    assert (found.covariate, found.balanced) == ("foreign", True)
    assert found.slope == pytest.approx(-0.005, rel=0.2)
    larger = adjusted(a, [3 * value for value in b], covariates)
    assert larger.slope == pytest.approx(found.slope)
    assert larger.comparison.effect == pytest.approx(3 * found.comparison.effect)


def test_a_disturbance_that_one_state_has_more_of_is_said():
    a, b, covariates = simulated(1, 20, slope=0.005)
    more = [one + 50 for one in covariates["foreign"]]
    found = adjusted(a, [value * math.exp(-0.005 * 50) for value in b], {"foreign": more})
    assert not found.balanced
    assert found.comparison.verdict == "no difference shown"


def test_few_pairs_or_what_explains_nothing_adjust_nothing():
    a, b, covariates = simulated(2, 20, slope=0.005)
    assert adjusted(a[:9], b[:9], {name: one[:9] for name, one in covariates.items()}) is None
    assert adjusted(a, b, {"steal": covariates["steal"], "constant": [0.0] * 20}) is None
    assert adjusted([0.0, *a[1:]], b, covariates) is None
