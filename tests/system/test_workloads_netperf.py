"""netperf in real namespaces."""

import pytest
from workload_lab import record, run

from testbed.evidence.cpu import CpuUse

pytestmark = pytest.mark.requires("netperf")


def test_a_stream_names_its_congestion_control_ports_and_socket_sizes(tmp_path):
    outcome = run(tmp_path, tool="netperf", length="128K", window="1M")
    workload = outcome.workload
    assert outcome.reason is None
    assert workload.congestion == "cubic"
    assert (workload.tuple.source_port, workload.tuple.destination_port) == (40001, 5301)
    assert workload.sockets.message == 131072
    assert workload.bits_per_second == pytest.approx(workload.bytes * 8 / outcome.measured_s, rel=0.02)
    assert set(outcome.processes) == {"client", "server"}


@pytest.mark.parametrize("test", ["TCP_MAERTS", "TCP_SENDFILE", "UDP_STREAM"])
def test_every_stream_test_gives_a_throughput(tmp_path, test):
    outcome = run(tmp_path, tool="netperf", test=test, family=4)
    assert outcome.reason is None
    assert outcome.workload.bits_per_second > 0


@pytest.mark.parametrize("test", ["TCP_RR", "UDP_RR", "TCP_CRR"])
def test_a_ping_pong_gives_latency_in_order(tmp_path, test):
    outcome = run(tmp_path, tool="netperf", test=test)
    assert outcome.reason is None
    latency = outcome.workload.latency_us
    assert 0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    assert outcome.workload.transactions_per_second > 0


def test_a_congestion_control_that_the_kernel_lacks_makes_the_result_invalid(tmp_path):
    reason = run(tmp_path, tool="netperf", congestion="nosuch").reason
    assert reason.startswith("client: congestion control nosuch was refused, it used ")


def test_connections_one_after_the_other_count_until_the_test_is_over(tmp_path):
    """The end of netserver's wait, rung for it, is no time of the test: the cores are idle then."""
    found, _ = record(tmp_path, beside=[CpuUse()], tool="netperf", test="TCP_CRR", duration=2)
    assert found.valid, found.reason
    seconds = found.cpu.core_s / len(found.cpu.per_core)
    assert 0.9 * found.measured_s < seconds < found.measured_s + 0.25


def test_connections_one_after_the_other_do_not_wait_for_the_timer_of_the_server(tmp_path):
    # netserver's own timer rings 4 s after the end of the test: past the timeout.
    assert run(tmp_path, tool="netperf", test="TCP_CRR", timeout=3).reason is None
