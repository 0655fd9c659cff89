"""Queues: what is made of readings, and that a flow's figures agree among themselves."""

import pytest
from made_rounds import made_round, made_run, made_state

from testbed.analysis.metric_key import key_of
from testbed.analysis.report import make_report
from testbed.evidence.queues import summed
from testbed.netlink.qdisc_messages import QdiscStats
from testbed.records.round import Queue, Tcp, TcpSample, Workload
from testbed.reports.html import html_report
from testbed.reports.text import text_report
from testbed.running.agreement import Traffic, disagreements
from testbed.workloads.tool import Outcome


def look(backlog, packets, drops):
    return {"client:veth0": QdiscStats(2, "tbf", backlog, packets, drops, 5 * drops, 0)}


def test_counts_are_of_the_time_between_and_backlogs_of_every_look():
    assert summed([look(0, 0, 7), look(30_000, 2, 9), look(60_000, 4, 19)]) == {
        "client:veth0": Queue(
            kind="tbf",
            samples=3,
            backlog_bytes_max=60_000,
            backlog_bytes_mean=30_000,
            backlog_packets_max=4,
            backlog_packets_mean=2,
            drops=12,
            overlimits=60,
            requeues=0,
        )
    }
    assert summed([]) == {}


SAMPLES = [TcpSample(at_s=at / 4, rtt_us=100 + at, snd_cwnd=10 * (at + 1)) for at in range(5)]


def report():
    rounds = [
        made_round(
            number,
            "a",
            number,
            tcp=Tcp(busy_us=1_000_000, rwnd_limited_us=250_000, sndbuf_limited_us=0, samples=SAMPLES),
            queues=summed([look(0, 0, 0), look(30_000 * (number + 1), 2, number)]),
            workload=Workload(
                tool="netperf", bits_per_second=1e9, latency_us={"p50": 20.0 + number, "p90": 30, "p99": 50}
            ),
        )
        for number in range(3)
    ]
    return make_report(made_run({"a": made_state()}), rounds)


def test_queues_limits_and_latency_are_figures_with_intervals():
    held = report().data.states["a"]
    assert held["tcp.rwnd_limited"].mean == 25
    assert held["tcp.sndbuf_limited"].mean == 0
    assert held["latency_us.p50"].mean == 21
    assert held["latency_us.p50"].ci95 is not None
    assert held[key_of("client:veth0 queue_max")].mean == 60_000
    assert held[key_of("client:veth0 queue_drops")].mean == 1


def test_the_text_tells_them():
    text = text_report(report())
    assert "TCP limited by rwnd/sndbuf, % of busy time: 25/0" in text
    assert "client:veth0 queue mean/most bytes, drops a round: 30000/90000/1" in text
    assert "median us [95% CI]" in text


def test_html_shows_window_and_round_trip_time_over_time():
    page = html_report(report())
    assert "a: 10 segments at first, 50 at the end, 50 at most" in page
    assert "a: 100 us at first, 104 at the end, 104 at most" in page


@pytest.mark.parametrize(
    ("rwnd", "sndbuf", "count"), [(400, 600, 0), (400, 601, 1), (None, 1000, 0), (1001, None, 1)]
)
def test_times_held_back_are_parts_of_the_busy_time(rwnd, sndbuf, count):
    tcp = Tcp(busy_us=1000, rwnd_limited_us=rwnd, sndbuf_limited_us=sndbuf)
    outcome = Outcome(Workload(tool="tool"), measured_s=1.0)
    assert len(disagreements(outcome, Traffic({}, tcp=tcp), has_warmup=False, crosses=True)) == count
