"""The whole procedure on simulated machines: order, stopping rule, comparison, verdict."""

import math
import random

import pytest
from statsmodels.stats.power import TTestPower

from testbed.experiments.schedule import StoppingRule, block_order
from testbed.stats.compare import Comparison, compare_pairs, half_width, pairs_to_show


def simulated_run(
    seed: int, rule: StoppingRule, *, effect: float = 1.0, drift: float = 0.06, outliers: float = 0.05
) -> Comparison:
    """One run of two states on a machine that warms up, varies by 2% and has rounds that go wrong."""
    rng = random.Random(seed)
    values: dict[str, list[float]] = {"a": [], "b": []}
    rounds = 0
    while not rule.enough(len(values["a"]), {"a : b": half_width(values["a"], values["b"])}):
        for state in block_order(["a", "b"], seed, len(values["a"])):
            rate = 40e9 * (1 + drift * min(1.0, rounds / 40)) * rng.gauss(1, 0.02)
            rate *= rng.uniform(0.7, 0.9) if rng.random() < outliers else 1
            values[state].append(rate * (effect if state == "b" else 1))
            rounds += 1
    return compare_pairs(values["a"], values["b"])


def share_of_differences(rule: StoppingRule, *, runs: int = 2000, **machine: float) -> float:
    verdicts = [simulated_run(seed, rule, **machine).verdict for seed in range(runs)]
    return sum(verdict in ("b higher", "b lower") for verdict in verdicts) / runs


@pytest.mark.parametrize(
    "rule",
    [StoppingRule(rounds=6, cap=6), StoppingRule(rounds=6, cap=18, target=0.025)],
    ids=["six rounds", "until 2.5%"],
)
def test_equal_states_differ_in_at_most_6_percent_of_runs(rule):
    """The nominal 5% and the noise of 2000 simulated runs (binomial, 2 sd is 1%)."""
    assert share_of_differences(rule) <= 0.06


def test_equal_states_differ_too_seldom_rather_than_too_often_without_outliers():
    share = share_of_differences(StoppingRule(rounds=6, cap=18, target=0.025), runs=600, outliers=0.0)
    assert 0.01 <= share <= 0.06


def test_five_percent_is_found_in_nine_of_ten_runs_with_at_most_twelve_pairs():
    rule = StoppingRule(rounds=6, cap=12, target=0.015)
    assert share_of_differences(rule, runs=500, effect=1.05, outliers=0.0) >= 0.9


def test_half_width_is_that_of_the_comparison():
    a, b = [100.0, 103, 98, 101], [104.0, 109, 103, 104]
    low, high = compare_pairs(a, b).ci95 or (0, 0)
    assert half_width(a, b) == pytest.approx((high - low) / 2 / math.sqrt(high * low))
    assert half_width(a, [10 * value for value in b]) == pytest.approx(half_width(a, b))
    assert half_width(a[:1], b[:1]) is None
    assert half_width([0.0, 1.0], [1.0, 1.0]) is None


@pytest.mark.parametrize("effect", [1.01, 1.02, 0.97])
def test_pairs_to_show_an_effect_agree_with_the_power_of_the_t_test(effect):
    spread = 0.028
    exact = TTestPower().solve_power(effect_size=abs(math.log(effect)) / spread, alpha=0.05, power=0.8)
    assert pairs_to_show(spread, effect) == pytest.approx(exact, abs=1.5)
