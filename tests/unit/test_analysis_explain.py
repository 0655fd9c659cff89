"""The arithmetic of packet sizes, against sizes that were measured and published."""

import pytest
from made_rounds import made_round, made_run, made_state, packets
from msgspec.structs import replace

from testbed.analysis.explain import Flow, explain, explained, flow_of
from testbed.analysis.metric_key import Side, key_of
from testbed.analysis.report import report_data
from testbed.records.round import Tcp, Tuple, Workload

NAGLE = Flow(family=6, mss=1428, options=12, write=512_000, limit=524_280)
HEADERS = "(14 Ethernet, 40 IPv6, 32 TCP with timestamps)"
JUMBO = "(14 Ethernet, 40 IPv6, 8 jumbo option, 32 TCP with timestamps)"


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (86, f"pure ACK: 86 {HEADERS}"),
        (862, f"776 (remainder of a 512000-byte write after 358 x 1428) + 86 {HEADERS}"),
        (511_310, f"358 x 1428 + 86 {HEADERS}"),
        (512_086, f"whole 512000-byte write + 86 {HEADERS}"),
        (512_738, f"359 x 1428 + 86 {HEADERS}"),
        (511_318, f"358 x 1428 + 94 {JUMBO}"),
        (512_094, f"whole 512000-byte write + 94 {JUMBO}"),
        (524_170, f"367 x 1428 (the most that gso_max_size 524280 allows) + 94 {JUMBO}"),
        (1514, f"1 x 1428 + 86 {HEADERS}"),
    ],
)
def test_sizes_of_the_nagle_experiment_come_out(size, words):
    assert explain(size, NAGLE) == words


def test_writes_that_queued_up_leave_the_remainder_of_their_sum():
    flow = Flow(family=6, mss=1428, options=12, write=102_400)
    assert explain(682, flow) == (
        f"596 (remainder of 2 writes of 102400 bytes after 143 x 1428) + 86 {HEADERS}"
    )


@pytest.mark.parametrize("size", [85, 87, 1000, 511_311, 600_001])
def test_a_size_that_does_not_come_out_says_nothing(size):
    assert explain(size, NAGLE) is None


@pytest.mark.parametrize(
    ("size", "blocks"), [(98, "1 SACK block"), (106, "2 SACK blocks"), (114, "3 SACK blocks")]
)
def test_acks_may_carry_sack_blocks(size, blocks):
    option = f"{size - 86} SACK option"
    assert explain(size, NAGLE, acks=True) == f"ACK with {blocks}: {size} {HEADERS[:-1]}, {option})"
    assert explain(size, NAGLE) is None


def test_options_hold_no_more_than_three_sack_blocks_beside_timestamps_and_four_without():
    assert explain(122, NAGLE, acks=True) is None
    plain = Flow(family=4, mss=1460, options=0)
    assert (explain(54 + 36, plain, acks=True) or "").startswith("ACK with 4 SACK blocks")
    assert explain(54 + 44, plain, acks=True) is None
    assert explain(54 + 4, plain, acks=True) is None


def test_only_what_goes_back_to_the_sender_can_be_an_ack_with_sack_blocks():
    flow = Flow(family=6, mss=1428, options=12, nodes=("client", "server"))
    sides = [Side(node, "veth0", way) for node in ("client", "router", "server") for way in ("rx", "tx")]
    assert [str(side) for side in sides if flow.acks(side)] == ["client:veth0 rx", "server:veth0 tx"]


def test_an_ipv4_packet_never_has_the_jumbo_option():
    ipv4 = Flow(family=4, mss=1448, options=12, write=512_000, limit=524_280)
    assert explain(522_794, ipv4) == (
        "361 x 1448 (the most that gso_max_size 524280 allows) "
        "+ 66 (14 Ethernet, 20 IPv4, 32 TCP with timestamps)"
    )
    assert explain(522_802, ipv4) is None


def test_zerocopy_sizes_at_mtu_4200_come_out():
    flow = Flow(family=6, mss=4128, options=12, write=1 << 20, limit=65_536)
    assert explain(62_006, flow) == f"15 x 4128 (the most that gso_max_size 65536 allows) + 86 {HEADERS}"


def test_packets_under_a_tunnel_have_its_headers():
    tunnelled = Flow(family=6, mss=1358, options=12, write=131_072, tunnels=(56,))
    assert explain(1358 + 86 + 70, tunnelled, carries=False) == (
        "1 x 1358 + 156 (14 Ethernet, 56 tunnel, 14 Ethernet, 40 IPv6, 32 TCP with timestamps)"
    )
    assert explain(86, tunnelled, carries=True) == f"pure ACK: 86 {HEADERS}"


def flow_round(**fields):
    ends = Tuple(source="fd01::1", source_port=5000, destination="fd01::2", destination_port=5201)
    body = {
        "workload": Workload(tool="iperf3", tuple=ends),
        "settings": {
            "client:veth0": {"mtu": 65535, "gso_max_size": 65536, "addresses": ["fe80::1/64", "fd01::1/64"]},
            "server:veth0": {"mtu": 65535, "addresses": ["fd01::2/64"]},
        },
        "packet_sizes": packets("client:veth0", "rx", {86: 50}) + packets("server:veth0", "rx", {65549: 9}),
    }
    return made_round(0, "a", 0, **(body | fields))


def test_without_gso_the_mss_is_what_the_mtu_leaves():
    flow = flow_of(flow_round(), made_state(length=512_000))
    assert flow is not None
    assert (flow.mss, flow.options, flow.write, flow.limit) == (65_463, 12, 512_000, 65_536)
    key = key_of("server:veth0 rx 65549")
    words = explained(flow_round(), made_state(length=512_000), [key])
    assert words[key].startswith("1 x 65463 + 86")


def test_the_mss_that_tcp_reports_wins_over_gso_packets():
    gso = packets("server:veth0", "rx", {62006: 9}, gso_size=4128) + packets("client:veth0", "rx", {86: 50})
    by_gso = flow_of(flow_round(packet_sizes=gso), made_state())
    by_tcp = flow_of(flow_round(packet_sizes=gso, tcp=Tcp(snd_mss=1428)), made_state())
    assert by_gso is not None and by_tcp is not None
    assert (by_gso.mss, by_tcp.mss) == (4128, 1428)


def test_a_jumbogram_leaves_room_for_its_option():
    settings = {"client:veth0": {"mtu": 524_280, "addresses": ["fd01::1/64"]}}
    flow = flow_of(flow_round(settings=settings), made_state(length=512_000))
    assert flow is not None
    assert explain(524_294, flow) == f"1 x 524200 + 94 {JUMBO}"
    assert explain(512_094, flow) == f"whole 512000-byte write + 94 {JUMBO}"


def test_without_pure_acks_nothing_is_known_of_options_and_nothing_is_said():
    assert flow_of(flow_round(packet_sizes=packets("server:veth0", "rx", {65549: 9})), made_state()) is None


def test_the_topology_says_what_a_tunnel_adds():
    vxlan = {"kind": "vxlan", "id": 7, "local": "fd00::1", "remote": "fd00::2"}
    veth = {"kind": "veth", "peer": "server:veth0"}
    topology = {"nodes": {"client": {"devices": {"veth0": veth, "vxlan0": vxlan}}}}
    flow = flow_of(flow_round(), made_state() | {"topology": topology})
    assert flow is not None
    assert flow.tunnels == (56,)


def test_the_report_carries_the_arithmetic_of_sizes_of_any_round():
    rows = packets("server:veth0", "rx", {53845: 3})
    later = replace(flow_round(packet_sizes=rows), round=1, block=1)
    data = report_data(made_run({"a": made_state(length=512_000)}), [flow_round(), later])
    remainder = data.states["a"][key_of("server:veth0 rx 53845")]
    assert (remainder.explained or "").startswith("53759 (remainder of a")
    assert data.states["a"][key_of("client:veth0 rx 86")].explained == f"pure ACK: 86 {HEADERS}"
