"""Each link kind on the running kernel: made and read back, carrying traffic, refused with its reason."""

import pytest
from reach import reaches

from testbed.devices.links import KINDS
from testbed.devices.settings import Settings
from testbed.errors import InputError, MissingCapability
from testbed.lab.lab import open_lab
from testbed.probing import find
from testbed.topology.loading import load_topology, parse_topology

BIG = {
    "gso_max_size": 524280,
    "gro_max_size": 524280,
    "gso_ipv4_max_size": 524280,
    "gro_ipv4_max_size": 524280,
}
# One device of each kind that a kernel may lack, on a node that has veth0.
LACKING = {
    "geneve": "x0: {kind: geneve, id: 1, remote: fd00::2}",
    "netkit": "x0: {kind: netkit, peer: 'server:x0'}",
    "ipvlan": "x0: {kind: ipvlan, dev: veth0}",
    "vlan": "x0: {kind: vlan, dev: veth0, id: 5}",
    "dummy": "x0: {kind: dummy}",
}
PAIR = """nodes:
  client:
    devices:
      {client}
      veth0: {{kind: veth, peer: server:veth0, addresses: [192.168.1.1/24, fd00::1/64]}}
  server:
    devices:
      {server}
      veth0: {{addresses: [192.168.1.2/24, fd00::2/64]}}
"""


def pair(client="", server=""):
    """Two nodes joined by a veth pair, with a device more in each, which comes first in the file."""
    return parse_topology(PAIR.format(client=client, server=server), "t.yaml")


def both_ways(lab, source="client", target="server"):
    return [reaches(lab, one, two, v) for one, two in ((source, target), (target, source)) for v in (4, 6)]


def carries(topology):
    with open_lab(topology) as lab:
        assert both_ways(lab) == [b"packet"] * 4


def test_a_bridge_joins_its_ports_and_takes_their_limit():
    text = """nodes:
  client: {devices: {veth0: {kind: veth, peer: "switch:port0", addresses: [10.1.0.1/24, fd01::1/64]}}}
  server: {devices: {veth0: {kind: veth, peer: "switch:port1", addresses: [10.1.0.2/24, fd01::2/64]}}}
  switch: {devices: {br0: {kind: bridge, ports: [port0, port1], gso_max_size: 524280}, port0: {mtu: 1400}}}
"""
    with open_lab(parse_topology(text)) as lab:
        assert both_ways(lab) == [b"packet"] * 4
        bridge = lab.read_back()["switch:br0"]
    assert (bridge["tso_max_size"], bridge["gso_max_size"]) == (524280, 524280)
    assert bridge["mtu"] == 1400, "a bridge's MTU follows its lowest port"


def test_a_tap_port_lowers_what_a_bridge_takes():
    changed = load_topology("bridge-tap").with_settings({"switch:br0": Settings(gso_max_size=131072)})
    with pytest.raises(
        MissingCapability, match=r"switch:br0.*131072 is above the device's tso_max_size 65536"
    ):
        open_lab(changed)


def test_a_bridge_has_ports_of_any_kind():
    text = """nodes:
  client: {devices: {veth0: {kind: veth, peer: "switch:port0", addresses: [10.1.0.1/24, fd01::1/64]}}}
  switch:
    devices:
      br0: {kind: bridge, ports: [port0, vxlan0]}
      vxlan0: {kind: vxlan, id: 5, dev: veth1, remote: fd00::2}
      veth1: {kind: veth, peer: "server:veth0", addresses: [fd00::1/64]}
  server:
    devices:
      vxlan0: {kind: vxlan, id: 5, dev: veth0, remote: fd00::1, addresses: [10.1.0.2/24, fd01::2/64]}
      veth0: {addresses: [fd00::2/64]}
"""
    with open_lab(parse_topology(text)) as lab:
        assert both_ways(lab) == [b"packet"] * 4


@pytest.mark.parametrize("lower", ["dev: veth0, ", ""])
@pytest.mark.parametrize(("near", "far"), [("192.168.1.1", "192.168.1.2"), ("fd00::1", "fd00::2")])
def test_vxlan_with_and_without_a_lower_device_over_both_versions(lower, near, far):
    device = "vx: {{kind: vxlan, id: 9, {}local: {}, remote: {}, mtu: 1400, addresses: [{}]}}"
    carries(
        pair(
            device.format(lower, near, far, "10.1.0.1/24, fd01::1/64"),
            device.format(lower, far, near, "10.1.0.2/24, fd01::2/64"),
        )
    )


def test_vxlan_takes_the_limit_and_mtu_of_its_lower_device_over():
    with open_lab("vxlan") as lab:
        actual = lab.read_back()["client:vxlan0"]
    assert (actual["tso_max_size"], actual["mtu"]) == (524280, 1430)


def test_vxlan_options_are_carried():
    options = "udp6zerocsumtx: true, udp6zerocsumrx: true, learning: false, dstport: 8472, ttl: 3"
    device = "vx: {{kind: vxlan, id: 9, dev: veth0, {}, remote: {}, addresses: [{}]}}"
    carries(
        pair(
            device.format(options, "fd00::2", "10.1.0.1/24, fd01::1/64"),
            device.format(options, "fd00::1", "10.1.0.2/24, fd01::2/64"),
        )
    )


def test_vxlan_reaches_its_far_end_by_static_entries_alone():
    device = "vx: {{kind: vxlan, id: 9, dev: veth0, learning: false, fdb: [{{dst: {}}}], addresses: [{}]}}"
    carries(
        pair(
            device.format("fd00::2", "10.1.0.1/24, fd01::1/64"),
            device.format("fd00::1", "10.1.0.2/24, fd01::2/64"),
        )
    )


def test_vxlan_mtu_above_a_lower_device_is_refused_with_both_figures():
    with pytest.raises(
        InputError, match=r"^t\.yaml:4: client:vx: mtu 1431 is above what client:veth0 below it"
    ):
        pair("vx: {kind: vxlan, id: 9, dev: veth0, remote: fd00::2, mtu: 1431}")


def test_vxlan_mtu_that_only_the_kernel_can_judge_is_refused_with_what_bounds_it():
    """A bridge's MTU is its ports': the file does not say it."""
    text = """nodes:
  host:
    devices:
      br0: {kind: bridge}
      vx: {kind: vxlan, id: 9, dev: br0, remote: fd00::2, mtu: 9000}
"""
    with pytest.raises(
        InputError, match=r"^t\.yaml:5: host:vx: mtu 9000 .* at most the mtu of host:br0 less 70$"
    ):
        open_lab(parse_topology(text, "t.yaml"))


@pytest.mark.requires("geneve")
def test_geneve_carries():
    carries("geneve")


@pytest.mark.requires("geneve")
def test_geneve_over_ipv4_carries():
    device = "gn: {{kind: geneve, id: 9, remote: {}, dstport: 6082, mtu: 1400, addresses: [{}]}}"
    carries(
        pair(
            device.format("192.168.1.2", "10.1.0.1/24, fd01::1/64"),
            device.format("192.168.1.1", "10.1.0.2/24, fd01::2/64"),
        )
    )


@pytest.mark.requires("netkit")
@pytest.mark.parametrize("mode", ["l2", "l3"])
def test_netkit_carries_with_ethernet_addresses_in_mode_l2_alone(mode):
    near = f"{{kind: netkit, mode: {mode}, peer: 'server:nk0', addresses: [10.1.0.1/24, fd01::1/64]}}"
    text = f"""nodes:
  client: {{devices: {{nk0: {near}}}}}
  server: {{devices: {{nk0: {{addresses: [10.1.0.2/24, fd01::2/64]}}}}}}
"""
    with open_lab(parse_topology(text)) as lab:
        assert both_ways(lab) == [b"packet"] * 4
        has_mac = lab.read_back()["client:nk0"]["mac"] != "00:00:00:00:00:00"
    assert has_mac == (mode == "l2")


@pytest.mark.requires("macvlan")
def test_macvlan_carries_with_the_limits_of_its_lower_device():
    with open_lab(load_topology("macvlan").with_settings({"*:*": Settings(**BIG)})) as lab:
        assert both_ways(lab) == [b"packet"] * 4
        assert lab.read_back()["client:macvlan0"]["gso_max_size"] == 524280


@pytest.mark.requires("ipvlan")
def test_ipvlan_carries():
    device = "iv: {{kind: ipvlan, dev: veth0, addresses: [{}]}}"
    carries(pair(device.format("10.1.0.1/24, fd01::1/64"), device.format("10.1.0.2/24, fd01::2/64")))


@pytest.mark.requires("ipvlan")
@pytest.mark.parametrize("mode", ["l3", "l3s"])
def test_ipvlan_is_made_in_the_modes_that_route(mode):
    with open_lab(pair(f"iv: {{kind: ipvlan, dev: veth0, mode: {mode}, flag: private}}")) as lab:
        assert lab.read_back()["client:iv"]["up"]


@pytest.mark.requires("vlan")
@pytest.mark.parametrize("protocol", ["802.1Q", "802.1ad"])
def test_vlan_carries(protocol):
    device = f"vl: {{{{kind: vlan, dev: veth0, id: 5, protocol: {protocol}, addresses: [{{}}]}}}}"
    carries(pair(device.format("10.1.0.1/24, fd01::1/64"), device.format("10.1.0.2/24, fd01::2/64")))


@pytest.mark.requires("dummy")
def test_dummy_is_made_with_its_settings():
    with open_lab(pair("dm: {kind: dummy, mtu: 9000, mac: '02:00:00:00:00:05'}")) as lab:
        actual = lab.read_back()["client:dm"]
    assert (actual["mtu"], actual["mac"]) == (9000, "02:00:00:00:00:05")


@pytest.mark.parametrize("kind", sorted(LACKING))
def test_a_kind_that_the_kernel_lacks_is_named_with_its_option(kind):
    if find([kind]).has(kind):
        pytest.skip(f"this kernel has {kind}")
    with pytest.raises(MissingCapability) as caught:
        open_lab(pair(LACKING[kind]))
    assert str(caught.value).startswith(
        f"t.yaml:4: client:x0: this kernel cannot make a {kind} link: it needs "
    )
    assert KINDS[kind].kernel_option in str(caught.value)
    assert caught.value.exit_status == 3


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (
            "vx: {kind: vxlan, id: 9, dev: veth0, remote: fd00::2, gso_max_size: 600000}",
            "tso_max_size 524280",
        ),
        ("br: {kind: bridge, gso_max_size: 131072}", "tso_max_size 65536"),
        ("tp: {kind: tap, gso_max_size: 131072}", "tso_max_size 65536"),
        ("mv: {kind: macvlan, dev: veth0, features: {tos: on}}", "no feature 'tos', did you mean"),
        (
            "vx: {kind: vxlan, id: 9, remote: fd00::2, features: {tx-udp_tnl-segmentation: on}}",
            "tx-udp_tnl-seg",
        ),
    ],
)
def test_what_a_kind_refuses_is_one_line_with_its_place(device, message):
    with pytest.raises((InputError, MissingCapability)) as caught:
        open_lab(pair(device))
    assert str(caught.value).startswith("t.yaml:4: client:")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
