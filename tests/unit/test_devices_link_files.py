"""Every link kind in a topology file: what it plans, and its mistakes with file and line. No root."""

import re
from pathlib import Path

import pytest

from testbed.devices import links
from testbed.devices.links import KINDS
from testbed.errors import InputError
from testbed.topology.loading import load_topology, parse_topology, shipped_topologies
from testbed.topology.plan import plan

UNDERLAY = "      veth0: {kind: veth, peer: server:veth0, addresses: [192.168.1.1/24, fd00::1/64]}\n"


def with_devices(*devices):
    """A client with veth0 and, from line 5 on, these devices; and a server with veth0."""
    client = UNDERLAY + "".join(f"      {device}\n" for device in devices)
    return parse_topology(
        f"nodes:\n  client:\n    devices:\n{client}  server: {{devices: {{veth0: {{}}}}}}\n", "t.yaml"
    )


def planned(*devices):
    return [str(operation) for operation in plan(with_devices(*devices))]


def mistake(*devices):
    with pytest.raises(InputError) as caught:
        with_devices(*devices)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_bridge_gets_its_ports_before_any_limit():
    operations = planned("br0: {kind: bridge, ports: [veth0], gso_max_size: 131072}")
    enslave = operations.index("client: link set veth0 master br0")
    limit = operations.index("client: link set br0 gso_max_size 131072")
    assert operations.index("client: link add br0 type bridge") < enslave < limit


def test_a_tunnel_is_made_after_the_device_below_it_wherever_the_file_has_it():
    operations = planned("vxlan0: {kind: vxlan, id: 7, dev: below, remote: fd00::2}", "below: {kind: dummy}")
    made = next(i for i, line in enumerate(operations) if "type vxlan" in line)
    assert operations.index("client: link add below type dummy") < made


def test_vxlan_options_are_in_the_plan_by_their_names():
    operations = planned(
        "vxlan0: {kind: vxlan, id: 7, dev: veth0, local: fd00::1, dstport: 8472, learning: false,"
        " udp6zerocsumtx: true, fdb: [{dst: fd00::2}, {mac: '02:00:00:00:00:09', dst: fd00::3}]}"
    )
    made = next(line for line in operations if "type vxlan" in line)
    for words in (
        "id 7",
        "link veth0",
        "local6 fd00::1",
        "port 8472",
        "learning False",
        "zero_csum6_tx True",
    ):
        assert words in made, words
    assert "client: fdb append 00:00:00:00:00:00 dev vxlan0 dst fd00::2" in operations
    assert "client: fdb append 02:00:00:00:00:09 dev vxlan0 dst fd00::3" in operations


def test_a_tap_and_its_far_end_are_pumped_before_limits_are_set():
    text = """nodes:
  switch: {devices: {tap0: {kind: tap, to: "guest:eth0", gro_max_size: 131072}}}
  guest: {pump: {}, devices: {eth0: {mtu: 1400}}}
"""
    operations = [str(operation) for operation in plan(parse_topology(text))]
    pump = operations.index("guest: pump switch:tap0 guest:eth0")
    assert operations.index("guest: tuntap add eth0 mode tap vnet_hdr") < pump
    assert pump < operations.index("switch: link set tap0 gro_max_size 131072")
    assert pump < operations.index("guest: link set eth0 mtu 1400")


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("gnv0: {kind: geneve, id: 3, remote: fd00::2}", ["id 3", "remote6 fd00::2", "port 6081"]),
        ("mac0: {kind: macvlan, dev: veth0, mode: private}", ["link veth0", "type macvlan", "mode private"]),
        ("ipv0: {kind: ipvlan, dev: veth0, mode: l3}", ["link veth0", "type ipvlan", "mode 1"]),
        ("vl0: {kind: vlan, dev: veth0, id: 5, protocol: 802.1ad}", ["link veth0", "type vlan", "vlan_id 5"]),
        ("nk0: {kind: netkit, peer: server:nk0}", ["type netkit", "mode 1", "peer server:nk0"]),
        ("dm0: {kind: dummy, mtu: 9000}", ["type dummy", "mtu 9000"]),
        ("enp1s0: {kind: physical}", ["take enp1s0 from this machine"]),
    ],
)
def test_a_kind_says_in_the_plan_what_it_makes(device, words):
    name = device.partition(":")[0]
    text = next(line for line in planned(device) if f" {name} " in line)
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("vx: {kind: vxlan}", "the key 'id' is missing"),
        ("vx: {kind: vxlan, id: 16777216}", "less than or equal to 16777215"),
        (
            "vx: {kind: vxlan, id: 1, dev: vet0}",
            "lower device 'vet0' is not a device of client, did you mean 'veth0'?",
        ),
        (
            "vx: {kind: vxlan, id: 1, dev: veth0, remote: fd00::2, mtu: 1431}",
            "mtu 1431 is above what client:veth0",
        ),
        ("vx: {kind: vxlan, id: 1, dev: veth0, remote: 1.2.3.4, mtu: 1451}", "carries, 1500 - 50 = 1450"),
        ("vx: {kind: vxlan, id: 1, local: 1.2.3.4, remote: fd00::2}", "mix IPv4 and IPv6"),
        ("vx: {kind: vxlan, id: 1, remote: ff02::1}", "is a multicast group: it needs dev"),
        ("vx: {kind: vxlan, id: 1, dstport: 0}", "greater than or equal to 1"),
        ("vx: {kind: vxlan, id: 1, remotes: fd00::2}", "unknown key, did you mean 'remote'?"),
        ("vx: {kind: vxlan, id: 1, remote: there}", "'there' is not an IPv4 or IPv6 address"),
        ("vx: {kind: vxlan, id: 1, dev: vx, remote: fd00::2}", "a cycle of devices: client:vx on client:vx"),
        ("gn: {kind: geneve, id: 1}", "the key 'remote' is missing"),
        ("gn: {kind: geneve, id: -1, remote: fd00::2}", "greater than or equal to 0"),
        ("br: {kind: bridge, ports: [veth0, veth0]}", "port 'veth0' stands twice"),
        (
            "br: {kind: bridge, ports: [veth1]}",
            "port 'veth1' is not a device of client, did you mean 'veth0'?",
        ),
        ("br: {kind: bridge, ports: [br]}", "a cycle of devices"),
        ("tp: {kind: tap, to: server}", "does not name an end as NODE:DEVICE"),
        ("tp: {kind: tap, to: 'server:eth0'}", "the node needs `pump: {}`"),
        ("tp: {kind: tap, to: 'guest:eth0'}", "no node 'guest'"),
        ("nk: {kind: netkit}", "the key 'peer' is missing"),
        ("nk: {kind: netkit, peer: 'server:veth0'}", "peer server:veth0 is the peer of client:veth0 already"),
        ("nk: {kind: netkit, peer: 'server:nk', mode: l4}", "'l2' or 'l3'"),
        ("mv: {kind: macvlan}", "the key 'dev' is missing"),
        ("mv: {kind: macvlan, dev: veth0, mode: switch}", "'private', 'vepa', 'bridge' or 'passthru'"),
        (
            "mv: {kind: macvlan, dev: veth0, mtu: 1501}",
            "mtu 1501 is above what client:veth0 below it carries, 1500",
        ),
        ("iv: {kind: ipvlan, dev: eth0}", "lower device 'eth0' is not a device of client"),
        ("vl: {kind: vlan, dev: veth0}", "the key 'id' is missing"),
        ("vl: {kind: vlan, dev: veth0, id: 4095}", "less than or equal to 4094"),
        ("vl: {kind: vlan, dev: veth0, id: 1, mtu: 9000}", "mtu 9000 is above what client:veth0"),
        ("dm: {kind: dummy, peer: 'server:dm'}", "unknown key"),
        ("ph: {kind: physical, mtu: big}", "expected a size in bytes"),
        ("xx: {kind: vxlna, id: 1}", "unknown link kind 'vxlna', did you mean 'vxlan'?"),
    ],
)
def test_a_mistake_in_a_device_is_one_line_with_its_place(device, message):
    found = mistake(device)
    assert re.match(r"t\.yaml:\d+: ", found), found
    assert message in found


def test_a_mistake_names_the_line_of_the_value():
    assert mistake("ok: {kind: dummy}", "vx:", "  kind: vxlan", "  id: 1", "  dstport: 70000").startswith(
        "t.yaml:9: "
    )


def test_a_bridge_port_cannot_be_a_tunnels_lower_device():
    found = mistake(
        "br0: {kind: bridge, ports: [veth0]}", "vxlan0: {kind: vxlan, id: 1, dev: veth0, remote: fd00::2}"
    )
    assert found.startswith(
        "t.yaml:5: client:veth0 is a port of client:br0 and the lower device of client:vxlan0"
    )


def test_two_links_cannot_make_one_device():
    found = mistake("veth1: {kind: veth, peer: server:veth0}")
    assert "peer server:veth0 is the peer of client:veth0 already" in found


def test_a_cycle_through_several_devices_is_told_as_a_whole():
    found = mistake(
        "br0: {kind: bridge, ports: [mv]}",
        "mv: {kind: macvlan, dev: vl}",
        "vl: {kind: vlan, dev: br0, id: 1}",
    )
    assert "a cycle of devices: client:br0 on client:mv on client:vl on client:br0" in found


@pytest.mark.parametrize("name", sorted(shipped_topologies()))
def test_every_shipped_topology_can_be_planned_and_says_what_it_is_for(name):
    assert plan(load_topology(name))
    assert shipped_topologies()[name].read_text().startswith("# ")


def test_the_shipped_topologies_are_those_that_the_documents_name():
    wanted = {
        "veth-pair",
        "veth-router",
        "vxlan",
        "vxlan-nolower",
        "geneve",
        "bridge-tap",
        "netkit-pair",
        "macvlan",
    }
    assert wanted <= set(shipped_topologies())


def test_every_module_of_a_link_kind_is_listed_under_the_kind_s_own_name():
    folder = Path(links.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "kind", "tunnel"}
    assert KINDS.keys() == modules
