"""Tools' figures against devices and sockets, from made-up readings."""

import pytest

from testbed.records.round import Counters, Tcp, Workload
from testbed.running.agreement import Traffic, compared, disagreements, lowest
from testbed.topology.loading import load_topology
from testbed.workloads.tool import Outcome

OUTCOME = Outcome(
    Workload(tool="tool", bits_per_second=8e9), measured_s=1.0, arrived={"server": 10**9}, counts_from=50.0
)
HOLDS = 10**7


def traffic(octets=1_050_000_000, packets=20_000, counted=None, late=0.0, acked=None, sockets=1):
    return Traffic(
        received={"server": Counters(rx_bytes=octets, rx_packets=packets), "client": Counters()},
        counted={} if counted is None else {"server": counted},
        counted_from=50.0 + late,
        tcp=None if acked is None else Tcp(acked_bytes=acked, sockets=sockets),
        socket_holds=HOLDS,
    )


def found(seen, outcome=OUTCOME, *, has_warmup=False, crosses=True):
    return disagreements(outcome, seen, has_warmup=has_warmup, crosses=crosses)


def test_payload_with_its_headers_is_what_the_devices_received():
    assert found(traffic()) == []


def test_more_payload_than_the_devices_received():
    (words,) = found(traffic(octets=999_999_999))
    assert words == "server: 1000000000 bytes arrived by the tool, its devices received 999999999"


def test_bytes_that_a_tool_prints_as_a_rate_and_a_rounded_time():
    classic = Outcome(OUTCOME.workload, measured_s=1.0, resolution_s=0.005, arrived={"server": 10**9})
    assert found(traffic(octets=996_000_000), classic) == []
    assert len(found(traffic(octets=994_000_000), classic)) == 1


@pytest.mark.parametrize(
    ("counted", "late", "count"),
    [
        (1_050_000_000, 0.0, 0),
        (600_000_000, 0.0, 0),  # the tool began up to 0.4 s before the devices were read
        (500_000_000, 0.0, 1),
        (500_000_000, 0.2, 0),  # and they were read 0.2 s late
    ],
)
def test_after_omitted_seconds_the_devices_count_anew(counted, late, count):
    assert len(found(traffic(octets=3 * 10**9, counted=counted, late=late), has_warmup=True)) == count


@pytest.mark.parametrize(("acked", "count"), [(10**9, 0), (1_450_000_000, 0), (1_500_000_000, 1)])
def test_acknowledged_bytes_arrived(acked, count):
    assert len(found(traffic(acked=acked))) == count


def test_what_sockets_hold_may_not_have_arrived():
    assert found(traffic(acked=1_500_000_000, sockets=5)) == []


def test_sockets_of_what_stays_in_a_node_are_not_compared():
    assert found(traffic(acked=9 * 10**9), crosses=False) == []


@pytest.mark.parametrize(("packets", "count"), [(20_000, 0), (19_999, 1)])
def test_each_request_takes_a_packet(packets, count):
    requests = Outcome(Workload(tool="tool"), measured_s=1.0, least_packets={"server": 20_000})
    assert len(found(traffic(packets=packets), requests)) == count


def test_a_node_without_counters_says_nothing():
    assert found(Traffic(received={})) == []


@pytest.mark.parametrize(
    ("topology", "node", "devices"),
    [
        ("veth-pair", "server", ["server:veth0"]),
        ("vxlan", "server", ["server:veth0"]),
        ("vxlan-nolower", "server", ["server:veth0"]),
        ("bridge-tap", "switch", ["switch:tap0", "switch:port0"]),
    ],
)
def test_the_lowest_devices_carry_what_a_node_receives(topology, node, devices):
    assert lowest(load_topology(topology), [node]) == {node: devices}


@pytest.mark.parametrize(
    ("seen", "has_warmup", "crosses", "devices", "sockets"),
    [
        (traffic(acked=1_010_000_000), False, True, 0.952381, 1.01),
        (traffic(octets=3 * 10**9, counted=1_000_000_000), True, True, 1.0, None),
        (traffic(octets=3 * 10**9, counted=800_000_000, late=0.2), True, True, 1.0, None),
        (traffic(octets=3 * 10**9), True, True, None, None),  # the devices were not read when it was over
        (
            traffic(acked=2 * 10**9),
            False,
            False,
            0.952381,
            None,
        ),  # both directions: no one number of sockets'
    ],
)
def test_how_far_they_agree_is_a_figure(seen, has_warmup, crosses, devices, sockets):
    one = compared(OUTCOME, seen, has_warmup=has_warmup, crosses=crosses)
    assert (one.tool_over_devices, one.sockets_over_tool) == (devices, sockets)
