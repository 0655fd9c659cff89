"""Several flows at once in real namespaces."""

import signal

import pytest
from workload_lab import in_the_middle, run, send

pytestmark = pytest.mark.requires("iperf3", "netperf")


def test_flows_of_both_directions_run_at_the_same_time(tmp_path):
    specs = [
        {"tool": "iperf3", "length": "64K", "count": 2},
        {"tool": "iperf3", "from": "server", "to": "client"},
    ]
    outcome = run(tmp_path, tool="flows", flows=specs)
    workload = outcome.workload
    assert outcome.reason is None
    assert [flow.source for flow in workload.flows] == ["client", "client", "server"]
    assert workload.bits_per_second == pytest.approx(sum(flow.bits_per_second for flow in workload.flows))
    assert 1 / 3 <= workload.fairness <= 1
    assert len(workload.raw) == 6
    assert set(outcome.processes) == {f"{role}-{n}" for role in ("client", "server") for n in range(3)}


def test_latency_beside_a_stream_that_loads_the_path(tmp_path):
    specs = [
        {"tool": "netperf", "test": "TCP_RR", "request": 80_000, "response": 80_000},
        {"tool": "iperf3", "background": True},
    ]
    outcome = run(tmp_path, tool="flows", flows=specs, omit=1)
    assert outcome.reason is None
    ping_pong, load = outcome.workload.flows
    assert load.background and load.bits_per_second > 0
    assert outcome.workload.latency_us == ping_pong.latency_us != {}
    assert outcome.workload.bits_per_second == ping_pong.bits_per_second


def test_a_flow_that_fails_is_named_and_ends_the_others(tmp_path):
    specs = [{"tool": "iperf3"}, {"tool": "iperf3", "args": ["--dscp", "nosuch"]}]
    outcome = run(tmp_path, tool="flows", flows=specs)
    assert "flow 1: client: iperf3: parameter error - bad TOS value" in outcome.reason
    assert outcome.workload.bits_per_second is None


def test_every_flow_says_why_it_ended(tmp_path):
    outcome = run(
        tmp_path,
        tool="flows",
        flows=[{"tool": "iperf3"}, {"tool": "netperf"}],
        duration=30,
        at_start=in_the_middle(send(signal.SIGKILL, "server")),
    )
    assert outcome.reason.count("server: ended by SIGKILL") == 2
