"""Several flows as one workload: their ports, times and sums."""

import pytest

from testbed.errors import InputError
from testbed.records.round import Workload
from testbed.workloads import parse_options
from testbed.workloads.flows import aggregate, jain
from testbed.workloads.tool import Outcome


def flows(*specs, **given):
    return parse_options({"tool": "flows", "from": "client", "to": "server", "flows": list(specs), **given})


def test_every_flow_has_ports_of_its_own():
    parsed = [options for _, options in flows({"tool": "iperf3", "count": 2}, {"tool": "netperf"}).parsed()]
    assert [(one.port, one.client_port) for one in parsed] == [(5201, 40001), (5211, 40011), (5321, 40021)]
    assert parsed[2].control_port == 12885


def test_a_flow_takes_over_what_it_does_not_say():
    parsed = flows(
        {"tool": "iperf3"}, {"tool": "iperf3", "from": "server", "to": "client"}, family=4
    ).parsed()
    assert [(one.from_, one.to, one.family) for _, one in parsed] == [
        ("client", "server", 4),
        ("server", "client", 4),
    ]


def test_netperf_which_cannot_omit_runs_for_the_seconds_that_count():
    (_, stream), (_, ping_pong) = flows(
        {"tool": "iperf3"}, {"tool": "netperf", "test": "TCP_RR"}, duration=3, omit=2
    ).parsed()
    assert (stream.omit, stream.duration) == (2, 3)
    assert (ping_pong.omit, ping_pong.duration) == (0, 3)


def test_sums_are_of_the_flows_that_are_measured():
    options = flows({"tool": "netperf", "test": "TCP_RR"}, {"tool": "iperf3", "background": True})
    ping_pong = Workload(
        tool="netperf", bits_per_second=10, transactions_per_second=5, retransmits=1, latency_us={"p99": 70}
    )
    load = Workload(tool="iperf3", bits_per_second=1000, retransmits=9)
    whole = aggregate(
        [(parsed, Outcome(one)) for parsed, one in zip(options.parsed(), [ping_pong, load], strict=True)]
    )
    assert (whole.bits_per_second, whole.transactions_per_second, whole.retransmits) == (10, 5, 1)
    assert whole.latency_us == {"p99": 70}
    assert [(flow.bits_per_second, flow.background) for flow in whole.flows] == [(10, False), (1000, True)]


def test_one_flow_without_a_result_leaves_no_sum_that_looks_whole():
    options = flows({"tool": "iperf3", "count": 2})
    parts = [Workload(tool="iperf3", bits_per_second=10), Workload(tool="iperf3")]
    whole = aggregate([(parsed, Outcome(one)) for parsed, one in zip(options.parsed(), parts, strict=True)])
    assert whole.bits_per_second is None


def test_the_tools_of_the_flows_have_to_be_there():
    assert flows({"tool": "netperf"}, {"tool": "iperf3", "background": True}).tools == {"netperf", "iperf3"}


@pytest.mark.parametrize(("rates", "index"), [([5, 5, 5], 1.0), ([1, 0, 0, 0], 0.25), ([2, 1], 0.9)])
def test_fairness_is_jains_index(rates, index):
    assert jain(rates) == pytest.approx(index)


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        ([{"tool": "iperf3", "lenght": 3}], "workload.flows.0: lenght: unknown key, did you mean 'length'?"),
        ([{"tool": "iperf3", "background": True}], "workload.flows: every flow is background"),
        ([{"tool": "ping"}], "workload.flows.0.tool: input should be 'iperf3', 'netperf' or 'zerocopy'"),
    ],
)
def test_a_mistake_names_the_flow(specs, words):
    with pytest.raises(InputError) as error:
        flows(*specs)
    assert str(error.value).startswith(words)
