"""What a report says about rounds made by hand."""

import json
import tracemalloc

import pytest
from made_rounds import KERNEL, blocks_of, made_round, made_run, made_state, packets, sample_with
from msgspec.structs import replace

from testbed.analysis.metric_key import key_of, packet_size
from testbed.analysis.report import ReportData, main_sizes, report_data
from testbed.records.round import CoreUse, Cpu, PacketSizesMeta, ProcessUse, Tcp, Workload

SIDE = "server:veth0"


def nagle_round(number, block, sizes, omitted=0):
    rows = packets(SIDE, "rx", sizes)
    if omitted:
        rows = [replace(row, packets=row.packets + omitted, measured_packets=row.packets) for row in rows]
    return made_round(number, "big-tcp", block, packet_sizes=rows)


def test_a_size_absent_from_a_round_counts_zero_and_the_report_says_in_how_many_it_occurred():
    rounds = [nagle_round(0, 0, {862: 90, 512086: 10}), nagle_round(1, 1, {512086: 40})]
    rounds.append(nagle_round(2, 2, {862: 60, 512086: 10}))
    data = report_data(made_run({"big-tcp": made_state()}), rounds)
    rare = data.states["big-tcp"][key_of(f"{SIDE} rx 862")]
    assert (rare.n, rare.mean, rare.min, rare.rounds_seen) == (3, 50.0, 0.0, 2)
    assert data.states["big-tcp"][key_of(f"{SIDE} rx 512086")].rounds_seen == 3


def test_a_round_without_packet_sizes_says_nothing_about_them():
    without = made_round(1, "big-tcp", 1, packet_sizes_meta=PacketSizesMeta(collector="none"))
    data = report_data(made_run({"big-tcp": made_state()}), [nagle_round(0, 0, {862: 90}), without])
    assert data.states["big-tcp"][key_of(f"{SIDE} rx 862")].n == 1
    assert data.states["big-tcp"]["bits_per_second"].n == 2


def test_packets_of_omitted_seconds_do_not_count():
    data = report_data(made_run({"big-tcp": made_state()}), [nagle_round(0, 0, {862: 90}, omitted=1000)])
    assert data.states["big-tcp"][key_of(f"{SIDE} rx 862")].mean == 90


def test_rows_of_one_size_that_differ_in_segments_are_one_size():
    rows = packets(SIDE, "rx", {862: 5}, gso_segs=1) + packets(SIDE, "rx", {862: 7}, gso_segs=2)
    data = report_data(made_run({"a": made_state()}), [made_round(0, "a", 0, packet_sizes=rows)])
    assert data.states["a"][key_of(f"{SIDE} rx 862")].mean == 12


def test_mean_size_largest_size_and_frags_are_weighted_by_packets():
    rows = packets("client:veth0", "tx", {1000: 30}, nr_frags=2)
    rows += packets("client:veth0", "tx", {4000: 10}, nr_frags=6) + packets("client:veth0", "tx", {86: 5})
    data = report_data(made_run({"a": made_state()}), [made_round(0, "a", 0, packet_sizes=rows)])
    held = data.states["a"]
    assert held[key_of("client:veth0 tx mean_size")].mean == pytest.approx((30_000 + 40_000 + 430) / 45)
    assert held[key_of("client:veth0 tx largest_size")].mean == 4000
    assert held[key_of("client:veth0 tx frags")].mean == 3.0


def test_cpu_per_gb_is_the_busy_time_of_all_cores_over_the_bytes():
    cpu = Cpu(
        per_core=[CoreUse(system=50, softirq=10, idle=40), CoreUse(user=20, iowait=5, idle=75)],
        app=CoreUse(system=50),
        processes={"client": ProcessUse(user_s=1, system_s=1)},
    )
    workload = Workload(tool="iperf3", bits_per_second=8e9, bytes=2_000_000_000)
    record = made_round(0, "a", 0, measured_s=2.0, cpu=cpu, workload=workload, tcp=Tcp(rtt_us=55))
    held = report_data(made_run({"a": made_state()}), [record]).states["a"]
    assert held["cpu_s_per_gb"].mean == pytest.approx(0.8 * 2.0 / 2.0)
    assert held["cpu.app.system"].mean == 50
    assert held["tcp.rtt_us"].mean == 55
    assert held["overhead_s"].mean == pytest.approx(1.4 - 2.0)


def test_invalid_and_warmup_rounds_are_counted_and_do_not_count():
    rounds = [
        made_round(0, "a", -1, 5e9, warmup=True),
        made_round(1, "a", 0, 9e9, valid=False, reason="iperf3: connection refused"),
        made_round(2, "a", 0, 1e9),
    ]
    data = report_data(made_run({"a": made_state()}), rounds)
    assert data.states["a"]["bits_per_second"].mean == 1e9
    assert data.rounds["a"].model_dump() == {"valid": 1, "invalid": 1, "warmup": 1}
    assert data.invalid[0].reason == "iperf3: connection refused"


def test_pairs_are_the_blocks_that_both_states_have():
    rounds = blocks_of(["a", "b"], {"a": sample_with(8, 100e9, 1e9), "b": sample_with(8, 110e9, 1e9, 2)})
    lonely = made_round(99, "a", 8, 500e9)
    data = report_data(made_run({"a": made_state(), "b": made_state()}), [*rounds, lonely])
    found = next(one for one in data.comparisons if one.metric == "bits_per_second")
    assert (found.a, found.b, found.pairs, found.verdict) == ("a", "b", 8, "b higher")
    assert found.effect == pytest.approx(1.1, abs=0.001)
    assert found.p_sign_flip == 2 / 2**8


def test_a_size_that_vanishes_is_lower_in_b_without_a_ratio():
    rounds = []
    for block in range(6):
        for state, sizes in (("a", {862: 400 + block, 512086: 300}), ("b", {512086: 600})):
            rows = packets(SIDE, "rx", sizes)
            rounds.append(made_round(len(rounds), state, block, packet_sizes=rows))
    data = report_data(made_run({"a": made_state(), "b": made_state()}), rounds)
    found = next(one for one in data.comparisons if one.metric == key_of(f"{SIDE} rx 862"))
    assert (found.effect, found.verdict) == (None, "b lower")


def test_main_sizes_carry_one_percent_of_packets_or_bytes():
    sizes = {86: 1000, 862: 9, 512086: 1, 90: 1}
    record = made_round(0, "a", 0, packet_sizes=packets(SIDE, "rx", sizes))
    held = report_data(made_run({"a": made_state()}), [record]).states["a"]
    assert {packet_size(key).size for key in main_sizes(held)} == {86, 862, 512086}


def test_states_that_were_skipped_are_named_and_not_compared():
    run = made_run({"a": made_state(), "b": made_state()}, skipped={"b": "veth.max_mtu is 65535"})
    data = report_data(run, blocks_of(["a"], {"a": [1e9, 2e9]}))
    assert data.skipped == {"b": "veth.max_mtu is 65535"}
    assert (list(data.states), data.comparisons) == (["a"], [])


@pytest.mark.parametrize(
    ("status", "note"),
    [("interrupted", "interrupted after 2 valid rounds"), ("running", "still going on"), ("complete", None)],
)
def test_a_run_that_did_not_end_says_so(status, note):
    data = report_data(made_run({"a": made_state()}, status=status), blocks_of(["a"], {"a": [1e9, 2e9]}))
    assert [note in problem for problem in data.problems] == ([True] if note else [])


def test_json_has_the_fixed_names_and_reads_back():
    rounds = blocks_of(["a", "b"], {"a": [1e9, 2e9], "b": [2e9, 3e9]})
    data = report_data(made_run({"a": made_state(), "b": made_state()}), rounds)
    text = data.model_dump_json(by_alias=True)
    body = json.loads(text)
    assert body["schema"] == 1
    summary = {"n", "mean", "sd", "ci95", "median", "mad", "min", "max", "rounds_seen", "unit", "explained"}
    assert set(body["states"]["a"]["bits_per_second"]) == summary
    comparison = {"metric", "a", "b", "effect", "ci95", "p_sign_flip", "p_mann_whitney", "pairs", "verdict"}
    assert comparison <= set(body["comparisons"][0])
    assert body["comparisons"][0]["verdict"] == "too few rounds"
    assert ReportData.model_validate_json(text) == data
    assert body["kernels"][KERNEL]["release"] == KERNEL


def test_a_metric_is_a_packet_size_only_when_it_ends_in_a_number():
    assert packet_size(key_of("server:veth0 rx 862")) == (("server", "veth0", "rx"), 862)
    assert packet_size(key_of("server:veth0 rx mean_size")) is None
    assert packet_size(key_of("bits_per_second")) is None


def test_memory_grows_by_figures_and_not_by_rounds():
    """Ten thousand rounds fit into some ten megabytes, whatever their records weigh."""

    def rounds():
        for number in range(2000):
            sizes = packets(SIDE, "rx", {86: 100, 862: 90, 512086: 10 + number})
            yield made_round(number, "big-tcp", number, packet_sizes=sizes, raw_like="x" * 10_000)

    tracemalloc.start()
    report_data(made_run({"big-tcp": made_state()}), rounds())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2000 * 1500


def test_a_clock_that_was_set_is_told_with_the_rounds_it_was_set_in():
    """In rounds that count, and in those that do not."""
    run = made_run({"a": made_state()})
    back, forward = {"at_s": 0.5, "by_s": -3600.0}, {"at_s": 0.7, "by_s": 0.25}
    rounds = [
        made_round(0, "a", 0, warmup=True, clock_steps=[forward]),
        made_round(1, "a", 0, valid=False, reason="netperf measures by the wall clock", clock_steps=[back]),
        made_round(2, "a", 0),
    ]
    (problem,) = report_data(run, rounds).problems
    assert problem.startswith(
        "the wall clock was set during the run "
        "(round 0 set forward by 0.250 s, round 1 set back by 3600.000 s): times of day"
    )
