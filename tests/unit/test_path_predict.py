"""The path prediction against figures recorded on Linux 6.18, and rules of the kernel that it follows."""

from ipaddress import ip_address

import pytest

from testbed.devices.links.kind import End
from testbed.errors import TestbedError
from testbed.path.predict import (
    BOUNDED_GSO,
    LOST,
    MSS_SEGMENTS,
    Hop,
    Limits,
    Traits,
    max_tcp_header,
    predict,
    traits_of,
)
from testbed.path.rendering import as_record, as_table
from testbed.path.route import Way, walk
from testbed.path.verify import all_agree, judge
from testbed.topology.loading import load_topology, parse_topology

LINUX_6_18 = Traits(max_tcp_header=192, jumbo_option=True, big_tunnels=False)
LINUX_7_3 = Traits(max_tcp_header=320, jumbo_option=False, big_tunnels=True)
OFFLOADS = frozenset(
    {"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-scatter-gather", "tx-checksum-ip-generic"}
    | {"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"}
)


def limits(mtu=1500, gso=65536, gro=65536, features=OFFLOADS, merges=True, segs=65535):
    return Limits(mtu, {4: gso, 6: gso}, {4: gro, 6: gro}, segs, features, merges)


# What the kernel would answer in each shipped topology: node -> prefix -> (device, next hop).
ROUTES = {
    "veth-router": {
        "client": {"fd02:": ("veth0", "fd01::fe"), "10.2": ("veth0", "10.1.0.254")},
        "router": {"fd02:": ("veth1", None), "10.2": ("veth1", None)},
    },
    "macvlan": {"client": {"": ("macvlan0", None)}},
    "vxlan": {"client": {"fd01:": ("vxlan0", None), "10.1": ("vxlan0", None), "fd00:": ("veth0", None)}},
}
DIRECT = {"client": {"": (None, None)}}


def steps(name, target):
    topology = load_topology(name)
    first = {end.node: end.device for end in reversed(topology.placed())}

    def route(node, address):
        for prefix, (device, hop) in ROUTES.get(name, DIRECT)[node].items():
            if str(address).startswith(prefix):
                return Way(device or first[node], ip_address(hop) if hop else address)
        raise TestbedError(f"no route from {node} to {address}")

    return walk(topology, "client", ip_address(target), route)


def places(found):
    return [f"{step.end} {step.direction}" for step in found]


def hops(name, target, changes=None, traits=LINUX_6_18, **everywhere):
    found = steps(name, target)
    actual = {step.end: limits(**everywhere) for step in found} | (changes or {})
    return {
        f"{hop.end} {hop.direction}": hop
        for hop in predict(found, actual, ip_address(target).version, traits)
    }


def test_a_packet_walks_through_bridge_and_pump():
    assert places(steps("bridge-tap", "fd01::2")) == [
        "client:veth0 tx",
        "switch:port0 rx",
        "switch:tap0 tx",
        "guest:eth0 rx",
    ]


def test_a_packet_in_a_tunnel_crosses_the_underlay_and_comes_out():
    found = steps("vxlan", "10.1.0.2")
    assert places(found) == ["client:vxlan0 tx", "client:veth0 tx", "server:veth0 rx", "server:vxlan0 rx"]
    assert [len(step.tunnels) for step in found] == [0, 1, 1, 0]
    assert [step.version for step in found] == [4, 6, 6, 4]


def test_a_macvlan_is_reached_through_the_device_below_it():
    assert places(steps("macvlan", "fd01::2")) == [
        "client:macvlan0 tx",
        "client:veth0 tx",
        "server:veth0 rx",
        "server:macvlan0 rx",
    ]


def test_no_way_is_an_error_that_names_where_it_ends():
    with pytest.raises(TestbedError, match=r"client:veth0: the links from here do not lead to fd01::99"):
        steps("veth-pair", "fd01::99")


@pytest.mark.parametrize(
    ("target", "gso", "largest"),
    [
        ("fd01::2", 65536, 64346),
        ("10.1.0.2", 65536, 65226),
        ("fd01::2", 524280, 524170),
        ("10.1.0.2", 524280, 522794),
    ],
)
def test_largest_packet_over_veth(target, gso, largest):
    """Recorded; the IPv6 one has the 8 bytes of the jumbo option."""
    found = hops("veth-pair", target, gso=gso)
    assert [hop.largest for hop in found.values()] == [largest, largest]
    assert all(hop.gso and hop.cut is None for hop in found.values())


def test_a_kernel_without_the_jumbo_option_sends_8_bytes_less():
    traits = traits_of("7.3.4", "CONFIG_IPV6=y\n")
    assert hops("veth-pair", "fd01::2", gso=524280, traits=traits)["server:veth0 rx"].largest == 524162


def test_a_router_with_lower_limits_cuts_to_segments():
    small = {End("router", "veth1"): limits()}
    mtu = {End("client", "veth0"): limits(mtu=1442, gso=524280)}
    found = hops("veth-router", "fd02::2", changes=small | mtu, gso=524280)
    cut = found["router:veth1 tx"]
    assert (cut.largest, cut.cut, cut.why, cut.gso) == (1456, MSS_SEGMENTS, "gso_max_size 65536", False)
    assert found["router:veth0 rx"].largest == 523434
    assert found["server:veth0 rx"].largest == 1456


@pytest.mark.parametrize(("target", "merged"), [("fd02::2", 87774), ("10.2.0.2", 89026)])
def test_gro_merges_64_segments_of_a_sender_without_tso(target, merged):
    """The kernel's big_tcp.sh, client TSO off: recorded at the router's receive side."""
    gro = OFFLOADS | {"rx-gro"}
    client = limits(mtu=1442, gso=128000, features=gro - {"tx-tcp-segmentation", "tx-tcp6-segmentation"})
    found = hops(
        "veth-router", target, changes={End("client", "veth0"): client}, gso=128000, gro=128000, features=gro
    )
    assert (found["client:veth0 tx"].largest, found["client:veth0 tx"].cut) == (1456, MSS_SEGMENTS)
    assert (found["router:veth0 rx"].largest, found["router:veth0 rx"].merged) == (merged, True)


def test_a_tap_cuts_big_tcp_and_still_passes_what_fits():
    tap = {End("switch", "tap0"): limits(merges=False)}
    found = hops("bridge-tap", "fd01::2", changes=tap, gso=524280)
    cut = found["switch:tap0 tx"]
    assert (cut.largest, cut.cut, cut.passes) == (1514, MSS_SEGMENTS, 64346)
    assert found["switch:port0 rx"].largest == 524170
    assert (found["guest:eth0 rx"].largest, found["guest:eth0 rx"].passes) == (1514, 64346)


def test_a_kernel_that_resegments_cuts_into_gso_packets_that_fit():
    tap = {End("switch", "tap0"): limits(merges=False)}
    traits = traits_of("6.18", "", declared=["resegment"])
    cut = hops("bridge-tap", "fd01::2", changes=tap, gso=524280, traits=traits)["switch:tap0 tx"]
    assert (cut.largest, cut.cut, cut.gso) == (64346, BOUNDED_GSO, True)


def test_resegmenting_keeps_to_gso_max_segs():
    tap = {End("switch", "tap0"): limits(segs=10)}
    traits = traits_of("6.18", "", declared=["resegment"])
    cut = hops("bridge-tap", "fd01::2", changes=tap, gso=524280, traits=traits)["switch:tap0 tx"]
    assert cut.largest == 10 * 1428 + 86


@pytest.mark.parametrize("lacking", ["tx-tcp6-segmentation", "tx-scatter-gather", "tx-checksum-ip-generic"])
def test_an_offload_that_is_off_is_never_resegmented(lacking):
    tap = {End("switch", "tap0"): limits(features=OFFLOADS - {lacking})}
    traits = traits_of("6.18", "", declared=["resegment"])
    cut = hops("bridge-tap", "fd01::2", changes=tap, gso=524280, traits=traits)["switch:tap0 tx"]
    assert (cut.largest, cut.cut) == (1514, MSS_SEGMENTS)


def test_a_packet_of_a_tunnel_is_cut_before_a_device_that_does_not_take_it():
    """Recorded: IPv4 in vxlan over IPv6, gso 131072 on the tunnel, 65536 on the veth."""
    tunnel = {End(node, "vxlan0"): limits(mtu=1430, gso=131072) for node in ("client", "server")}
    found = hops("vxlan", "10.1.0.2", changes=tunnel)
    assert found["client:vxlan0 tx"].largest == 129598
    cut = found["client:veth0 tx"]
    assert (cut.largest, cut.cut, cut.why, cut.passes) == (1514, MSS_SEGMENTS, "gso_max_size 65536", 64902)


def test_a_tunnel_is_never_resegmented():
    tunnel = {End(node, "vxlan0"): limits(mtu=1430, gso=131072) for node in ("client", "server")}
    traits = traits_of("6.18", "", declared=["resegment"])
    assert hops("vxlan", "10.1.0.2", changes=tunnel, traits=traits)["client:veth0 tx"].cut == MSS_SEGMENTS


def test_big_tcp_that_a_kernel_loses_in_a_tunnel_is_said_to_be_lost():
    """Recorded on 6.18: accepted limits, and no packet above 64 KiB arrives."""
    tunnel = {End(node, "vxlan0"): limits(mtu=1430, gso=131072) for node in ("client", "server")}
    found = hops("vxlan", "10.1.0.2", changes=tunnel, gso=524280)
    assert (found["server:vxlan0 rx"].largest, found["server:vxlan0 rx"].cut) == (64832, LOST)
    found = hops("vxlan", "fd01::2", changes=tunnel, gso=524280)
    assert (found["client:veth0 tx"].largest, found["client:veth0 tx"].cut) == (65340, LOST)


def test_a_kernel_with_big_tunnels_loses_nothing():
    tunnel = {End(node, "vxlan0"): limits(mtu=1430, gso=131072) for node in ("client", "server")}
    found = hops("vxlan", "fd01::2", changes=tunnel, gso=524280, traits=traits_of("7.3.4", ""))
    assert [hop.cut for hop in found.values()] == [None] * 4
    assert found["server:vxlan0 rx"].largest > 120_000


@pytest.mark.parametrize(
    ("config", "header"),
    [
        ("CONFIG_IPV6=y\n", 192),
        ("CONFIG_WLAN=y\nCONFIG_IPV6_SIT=m\n", 320),
        ("CONFIG_IPV6_SIT=m\n", 256),
        (None, 320),
    ],
)
def test_max_tcp_header_follows_the_configuration(config, header):
    assert max_tcp_header(config) == header


def hop(largest, *, gso, passes=None, merged=False):
    return Hop(End("a", "b"), "tx", largest, 1514, 1428, gso, passes=passes, merged=merged)


@pytest.mark.parametrize(
    ("predicted", "sizes", "verdict"),
    [
        (hop(64346, gso=True), {64346: 100, 86: 2}, "exact"),
        (hop(64346, gso=True), {62918: 100}, "within"),
        (hop(64346, gso=True), {1514: 100}, "disagrees"),
        (hop(64346, gso=True), {64354: 1, 64346: 100}, "disagrees"),
        (hop(524170, gso=True), {64346: 100}, "disagrees"),
        (hop(129626, gso=True), {97932: 3, 86: 100}, "within"),
        (hop(1514, gso=False, passes=64346), {1514: 5000, 64346: 2}, "exact"),
        (hop(1514, gso=False, passes=64346), {1514: 5, 64346: 200}, "disagrees"),
        (hop(1514, gso=False, passes=64346), {1514: 5000, 64347: 1}, "disagrees"),
        (hop(64346, gso=True, passes=524170), {62918: 10}, "within"),
        (hop(1514, gso=False), {1514: 10}, "exact"),
        (hop(1514, gso=False), {2942: 1, 1514: 10}, "disagrees"),
        (hop(87774, gso=True, merged=True), {45000: 3}, "within"),
        (hop(87774, gso=True, merged=True), {87774: 3}, "exact"),
        (hop(87774, gso=True, merged=True), {89144: 1}, "disagrees"),
        (hop(1514, gso=False), {}, "not seen"),
    ],
)
def test_verdict_on_a_hop_by_what_was_seen(predicted, sizes, verdict):
    checked = judge(predicted, sizes)
    assert checked.verdict == verdict
    assert checked.agrees is {"not seen": None, "disagrees": False}.get(verdict, True)


def test_a_hop_that_was_not_seen_is_no_agreement():
    exact, unseen = judge(hop(1514, gso=False), {1514: 10}), judge(hop(1514, gso=False), {})
    assert all_agree([exact, unseen])
    assert not all_agree([unseen])
    assert not all_agree([exact, judge(hop(1514, gso=False), {2942: 1})])
    assert as_record([unseen.hop], [unseen])["hops"][0]["agrees"] is None


def test_the_table_says_exact_within_with_both_sizes_or_not_seen():
    predicted = [hop(129626, gso=True)] * 4
    seen = [{129626: 1}, {97932: 3}, {}, {1514: 1}]
    lines = as_table(predicted, [judge(*pair) for pair in zip(predicted, seen, strict=True)]).splitlines()
    assert [line.split("GSO")[1].split(maxsplit=1) for line in lines[1:2]] == [["129626", "exact"]]
    assert lines[2].endswith("97932  within (BIG TCP: 97932 of 129626)")
    assert lines[3].endswith("-  not seen")
    assert lines[4].endswith("1514  DISAGREES (segment: 1514 of 129626)")


TAGGED = """nodes:
  client:
    devices:
      veth0: {kind: veth, peer: "switch:port0"}
      vlan0: {kind: vlan, dev: veth0, id: 7, addresses: ["fd01::1/64"]}
      inner0: {kind: vlan, dev: vlan0, id: 8, protocol: 802.1ad, addresses: ["fd02::1/64"]}
  switch:
    devices:
      port0: {}
      port1: {kind: veth, peer: "server:veth0"}
      br0: {kind: bridge, ports: [port0, port1]}
  server:
    devices:
      veth0: {}
      vlan0: {kind: vlan, dev: veth0, id: 7, addresses: ["fd01::2/64"]}
      inner0: {kind: vlan, dev: vlan0, id: 8, protocol: 802.1ad, addresses: ["fd02::2/64"]}
"""
TAGS_BESIDE = OFFLOADS | {"tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"}


def tagged(device, inside, topology=TAGGED):
    """Sizes from the client's `device` on; the devices `inside` put a tag into the frame."""
    number = {"vlan0": 1, "inner0": 2}[device]
    found = walk(
        parse_topology(topology),
        "client",
        ip_address(f"fd0{number}::2"),
        lambda _, address: Way(device, address),
    )
    actual = {
        step.end: limits(gso=524280, features=OFFLOADS if str(step.end) in inside else TAGS_BESIDE)
        for step in found
    }
    return {f"{h.end} {h.direction}": h.largest for h in predict(found, actual, 6, LINUX_7_3)}


def test_a_tag_is_beside_the_frame_where_the_device_can_send_it_so():
    assert set(tagged("vlan0", ()).values()) == {522734}


def test_a_tag_inside_the_frame_is_four_bytes_until_it_is_received():
    """522738 as seen on Linux 7.3; the bridge takes it out of the frame when it receives it."""
    sizes = tagged("vlan0", {"client:veth0"})
    assert sizes == {
        "client:vlan0 tx": 522734,
        "client:veth0 tx": 522738,
        "switch:port0 rx": 522738,
        "switch:port1 tx": 522734,
        "server:veth0 rx": 522734,
        "server:vlan0 rx": 522734,
    }
    assert tagged("vlan0", {"switch:port1"})["server:veth0 rx"] == 522738


def test_only_one_tag_can_be_beside_the_frame():
    """The inner one goes in where the outer is put beside it: a VLAN device cannot send one so."""
    sizes = tagged("inner0", {"client:vlan0"})
    assert (sizes["client:inner0 tx"], sizes["client:vlan0 tx"]) == (522734, 522738)
    assert (sizes["client:veth0 tx"], sizes["server:veth0 rx"]) == (522738, 522738)
    assert (sizes["server:vlan0 rx"], sizes["server:inner0 rx"]) == (522738, 522734)
