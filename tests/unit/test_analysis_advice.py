"""What a report says would decide a comparison."""

import random

from made_rounds import made_round, made_run, made_state

from testbed.analysis.report import report_data
from testbed.records.round import Noise, Workload
from testbed.reports.tables import remarks


def noisy_run(between, within, pairs=8):
    """Two equal states in rounds of 2 s with 1 s of warm-up, relative standard deviations as given."""
    rng = random.Random(4)
    rounds = []
    for number in range(2 * pairs):
        level = 1e9 * rng.gauss(1, between)
        rates = [level * rng.gauss(1, within * 2) for _ in range(12)]  # intervals of 0.25 s
        flow = Workload(
            tool="iperf3",
            bits_per_second=sum(rates[4:]) / 8,
            interval_s=0.25,
            omitted_intervals=rates[:4],
            intervals=rates[4:],
        )
        state = "ab"[number % 2]
        rounds.append(made_round(number, state, number // 2, workload=flow, measured_s=2.0, wall_s=3.4))
    states = {name: made_state(duration=2.0, omit=1.0) for name in "ab"}
    return report_data(made_run(states, experiment={"protocol": {"target": 0.02}}), rounds)


def bitrate_of(data):
    return next(one for one in data.comparisons if one.metric == "bits_per_second")


def test_variance_between_rounds_is_met_by_more_and_shorter_rounds():
    data = noisy_run(between=0.05, within=0.01)
    one = bitrate_of(data)
    assert one.verdict == "no difference shown"
    advice = one.advice
    assert advice.between > 0.8 > 0.1 > advice.within
    assert (advice.this_run.pairs, advice.this_run.measured_s, advice.this_run.time_s) == (8, 2.0, 54.4)
    assert advice.same_time.measured_s == 1
    assert advice.same_time.half_width < 0.9 * advice.this_run.half_width
    assert advice.for_target.half_width <= 0.02
    first, second, *_ = remarks(data)
    assert first.startswith("a, b: bitrate: most of the variance is between rounds (drift ")
    assert first.endswith(
        f"8 pairs of 2 s know the effect to ±{advice.this_run.half_width:.1%} and took 54 s."
    )
    assert f"{advice.same_time.pairs} pairs of 1 s" in second


def test_variance_within_rounds_is_met_by_longer_ones():
    advice = bitrate_of(noisy_run(between=0.0, within=0.1)).advice
    assert advice.within > 0.8
    assert advice.for_target.measured_s > 2


def test_a_decided_comparison_needs_no_advice():
    rounds = [made_round(i, "ab"[i % 2], i // 2, 1e9 + i % 2 * 1e8 + i * 1e5) for i in range(16)]
    data = report_data(made_run({name: made_state() for name in "ab"}), rounds)
    assert (bitrate_of(data).verdict, bitrate_of(data).advice) == ("b higher", None)


def test_without_intervals_the_length_of_the_rounds_stays():
    rng = random.Random(2)
    rounds = [made_round(i, "ab"[i % 2], i // 2, rng.gauss(1e9, 3e7)) for i in range(16)]
    advice = bitrate_of(report_data(made_run({n: made_state() for n in "ab"}), rounds)).advice
    assert advice.within is None
    assert advice.for_target.measured_s == 3


def test_an_effect_that_other_processes_hid_is_told_beside_the_plain_one():
    rng = random.Random(3)
    rounds = []
    for number in range(32):
        foreign = rng.uniform(0, 80)
        bits = 1e9 * (1 - foreign / 200) * rng.gauss(1, 0.01) * (1.04 if number % 2 else 1)
        noise = Noise(foreign=foreign, steal=0.0)
        rounds.append(made_round(number, "ab"[number % 2], number // 2, bits, noise=noise))
    data = report_data(made_run({name: made_state() for name in "ab"}), rounds)
    one = bitrate_of(data)
    assert (one.verdict, one.adjusted.verdict) == ("no difference shown", "b higher")
    assert one.adjusted.ci95[0] < 1.04 < one.adjusted.ci95[1]
    assert remarks(data)[0].startswith("a, b: bitrate: adjusted for the CPU time of other processes: +")
