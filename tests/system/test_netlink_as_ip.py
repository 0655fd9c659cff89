"""The messages that go out are those of `ip`, `bridge` and `tc`, so that a change of pyroute2's is noticed.

strace shows what these send; whether the kernel can do it does not matter. Compared are type, flags, fields
and every attribute by its number, read here without pyroute2.
"""

import re
import shutil
import struct
import subprocess
from ipaddress import ip_address, ip_interface, ip_network

import pytest

from testbed.netlink import message, qdisc_messages, routing
from testbed.netlink.message import LinkEnd
from testbed.nodes.namespace import NamespaceNode

NEWLINK, NEWADDR, DELADDR, NEWROUTE, NEWNEIGH = 16, 20, 21, 24, 28
FIELDS = {16: 16, 17: 16, 20: 8, 21: 8, 24: 12, 28: 12}  # bytes before the attributes, by type
IFNAME, ADDRESS, NET_NS_FD, LINKINFO, ALIAS, EXT_MASK = 3, 1, 28, 18, 20, 29
# Attributes that hold others, as paths of numbers, and bytes before these.
NESTED = {NEWLINK: {(18,): 0, (18, 2): 0}, NEWROUTE: {(8,): 0}}
PAIRS = {"veth": (18, 2, 1), "netkit": (18, 2, 1)}
TEXTS = {(IFNAME,), (ALIAS,), (LINKINFO, 1), (LINKINFO, 2, 1, IFNAME)}
CREATION_FLAGS = 0xF00
# What iproute2 says beside, which is the kernel's default: vxlan learns, geneve has label, TTL and TOS 0; the
# default route is to 0.0.0.0.
DEFAULTS = {
    ("vxlan", (LINKINFO, 2, 7)): b"\1",
    ("geneve", (LINKINFO, 2, 11)): bytes(4),
    ("geneve", (LINKINFO, 2, 3)): b"\0",
    ("geneve", (LINKINFO, 2, 4)): b"\0",
    ("route", (1,)): bytes(4),
}
VETH0 = 7  # an index that fits no other number here

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture(scope="module")
def node():
    made = NamespaceNode.make("compared")
    pair = message.new_link(LinkEnd("veth0", VETH0), "veth", peer=LinkEnd("veth1", 8))
    bridge = message.new_link(LinkEnd("br0", 9), "bridge")
    up = [message.set_link(name, {}, up=True) for name in ("veth0", "veth1")]
    addresses = [message.add_address(VETH0, ip_interface(text)) for text in ("10.0.0.1/24", "fd00::1/64")]
    assert made.channel.send([pair, bridge, *up, *addresses]) == []
    yield made
    made.close()


def sent(node, command):
    """(type, flags, body) of what a command of ip, bridge or tc asks the kernel to change."""
    strace = ["strace", "-f", "-e", "trace=sendmsg,sendto", "-e", "write=all"]
    done = node.call(
        subprocess.run, [*strace, *command.split()], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    lines = re.findall(r"^ \| [0-9a-f]{5}  ((?:[0-9a-f]{2} {1,2})+)", done.stderr, re.MULTILINE)
    data = bytes.fromhex("".join(lines))
    found = []
    while data:
        length, kind, flags, sequence = struct.unpack_from("=IHHI", data)
        if kind in FIELDS and sequence:  # those without a number ask what this kernel knows
            found.append((kind, flags, data[16:length]))
        data = data[length:]
    (one,) = found
    return one


def attributes(data, nested, path=()):
    """Every attribute that holds no other: {path of numbers: value}."""
    found = {}
    while len(data) >= 4:
        length, number = struct.unpack_from("=HH", data)
        here = (*path, number & 0x3FFF)
        value = data[4:length]
        if here in nested:
            skipped = nested[here]
            if skipped:
                found[(*here, "fields")] = value[:skipped]
            found |= attributes(value[skipped:], nested, here)
        else:
            found[here] = value.rstrip(b"\0") if here in TEXTS else value
        data = data[(length + 3) & ~3 :]
    return found


def spelled_out(kind, flags, body, link_kind=None):
    nested = dict(NESTED.get(kind, {}))
    if link_kind in PAIRS:
        nested[PAIRS[link_kind]] = FIELDS[NEWLINK]
    size = FIELDS[kind]
    found = attributes(body[size:], nested)
    if kind == NEWLINK and not flags & CREATION_FLAGS:
        # `ip` names a device that is there by its index, we do by its name.
        family, hardware, index, *rest = struct.unpack_from("=BxHiII", body)
        name = found.pop((IFNAME,), {VETH0: b"veth0"}.get(index))
        return kind, flags & CREATION_FLAGS, (family, hardware, name, *rest), found
    return kind, flags & CREATION_FLAGS, body[:size], found


def same(node, command, request, link_kind=None):
    *theirs, found = spelled_out(*sent(node, command), link_kind)
    *ours, given = spelled_out(request.type, request.flags, request.body, link_kind)
    assert ours == theirs
    beside = {
        path: value
        for path, value in found.items()
        if path not in given and DEFAULTS.get((link_kind, path)) == value
    }
    assert given | beside == found


def known_by_ip(word):
    """Whether this iproute2 knows an option or a kind."""
    return word in subprocess.run(["ip", "link", "help"], capture_output=True, text=True).stderr


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("mtu 1400", {"mtu": 1400}),
        ("txqueuelen 77", {"txqueuelen": 77}),
        ("gso_max_size 70000", {"gso_max_size": 70000}),
        ("gso_max_segs 17", {"gso_max_segs": 17}),
        ("gro_max_size 80000", {"gro_max_size": 80000}),
        ("gso_ipv4_max_size 70000", {"gso_ipv4_max_size": 70000}),
        ("gro_ipv4_max_size 80000", {"gro_ipv4_max_size": 80000}),
        ("address 02:00:00:00:00:0a", {"mac": "02:00:00:00:00:0a"}),
        ("alias testbed:lab:client", {"alias": "testbed:lab:client"}),
        ("master br0", {"master": 9}),
        ("mtu 1400 gso_max_size 70000", {"mtu": 1400, "gso_max_size": 70000}),
    ],
)
def test_a_setting(node, words, values):
    setting = words.split()[0]
    if not known_by_ip(setting):
        pytest.skip(f"this iproute2 does not know {setting}")
    same(node, f"ip link set veth0 {words}", message.set_link("veth0", values))


@pytest.mark.parametrize("up", [True, False])
def test_up_and_down(node, up):
    same(node, f"ip link set veth0 {'up' if up else 'down'}", message.set_link("veth0", {}, up=up))


def test_a_move(node):
    kind, flags, body = sent(node, "ip link set veth0 netns /proc/self/ns/net")
    (number,) = struct.unpack("=I", attributes(body[16:], {})[(NET_NS_FD,)])
    ours = message.move_link("veth0", number)
    assert spelled_out(ours.type, ours.flags, ours.body) == spelled_out(kind, flags, body)


def test_a_deletion(node):
    """Of a device that is there only for that."""
    assert node.channel.send([message.new_link(LinkEnd("gone", 50), "bridge")]) == []
    kind, flags, body = sent(node, "ip link delete gone")
    ours = message.delete_link("gone")
    assert (ours.type, ours.flags & CREATION_FLAGS) == (kind, flags & CREATION_FLAGS)
    assert struct.unpack_from("=BxHiII", body) == (0, 0, 50, 0, 0)
    assert attributes(ours.body[16:], {}) == {(IFNAME,): b"gone"}


@pytest.mark.parametrize(
    ("kind", "words", "data"),
    [
        ("bridge", "", {}),
        ("dummy", "", {}),
        ("vxlan", "id 7 dstport 4789", {"IFLA_VXLAN_ID": 7, "IFLA_VXLAN_PORT": 4789}),
        (
            "vxlan",
            "id 7 dev veth0 remote 192.0.2.1 local 192.0.2.2 ttl 9 dstport 4789 nolearning udpcsum",
            {
                "IFLA_VXLAN_ID": 7,
                "IFLA_VXLAN_LINK": VETH0,
                "IFLA_VXLAN_GROUP": "192.0.2.1",
                "IFLA_VXLAN_LOCAL": "192.0.2.2",
                "IFLA_VXLAN_TTL": 9,
                "IFLA_VXLAN_PORT": 4789,
                "IFLA_VXLAN_LEARNING": 0,
                "IFLA_VXLAN_UDP_CSUM": 1,
            },
        ),
        (
            "vxlan",
            "id 7 remote fd00::2 local fd00::1 dstport 4789 learning udp6zerocsumtx udp6zerocsumrx",
            {
                "IFLA_VXLAN_ID": 7,
                "IFLA_VXLAN_GROUP6": "fd00::2",
                "IFLA_VXLAN_LOCAL6": "fd00::1",
                "IFLA_VXLAN_PORT": 4789,
                "IFLA_VXLAN_LEARNING": 1,
                "IFLA_VXLAN_UDP_ZERO_CSUM6_TX": 1,
                "IFLA_VXLAN_UDP_ZERO_CSUM6_RX": 1,
            },
        ),
        (
            "geneve",
            "id 7 remote 192.0.2.1 ttl 9 dstport 6081 udpcsum",
            {
                "IFLA_GENEVE_ID": 7,
                "IFLA_GENEVE_REMOTE": "192.0.2.1",
                "IFLA_GENEVE_TTL": 9,
                "IFLA_GENEVE_PORT": 6081,
                "IFLA_GENEVE_UDP_CSUM": 1,
            },
        ),
        (
            "geneve",
            "id 7 remote fd00::2 dstport 6081 udp6zerocsumtx udp6zerocsumrx",
            {
                "IFLA_GENEVE_ID": 7,
                "IFLA_GENEVE_REMOTE6": "fd00::2",
                "IFLA_GENEVE_PORT": 6081,
                "IFLA_GENEVE_UDP_ZERO_CSUM6_TX": 1,
                "IFLA_GENEVE_UDP_ZERO_CSUM6_RX": 1,
            },
        ),
        *(("macvlan", f"mode {mode}", {"IFLA_MACVLAN_MODE": mode}) for mode in ("private", "vepa", "bridge")),
        ("ipvlan", "mode l2 bridge", {"IFLA_IPVLAN_MODE": 0, "IFLA_IPVLAN_FLAGS": 0}),
        ("ipvlan", "mode l3 private", {"IFLA_IPVLAN_MODE": 1, "IFLA_IPVLAN_FLAGS": 1}),
        ("ipvlan", "mode l3s vepa", {"IFLA_IPVLAN_MODE": 2, "IFLA_IPVLAN_FLAGS": 2}),
        ("vlan", "id 5 protocol 802.1Q", {"IFLA_VLAN_ID": 5, "IFLA_VLAN_PROTOCOL": 0x8100}),
        ("vlan", "id 5 protocol 802.1ad", {"IFLA_VLAN_ID": 5, "IFLA_VLAN_PROTOCOL": 0x88A8}),
    ],
)
def test_a_device_that_is_made_alone(node, kind, words, data):
    above = kind in {"macvlan", "ipvlan", "vlan"}
    command = f"ip link add {'link veth0 ' if above else ''}name made index 40 mtu 1300 type {kind} {words}"
    end = LinkEnd("made", 40, {"mtu": 1300, **({"link": VETH0} if above else {})})
    same(node, command, message.new_link(end, kind, data), kind)


@pytest.mark.parametrize(
    ("kind", "words", "data"), [("veth", "", {}), ("netkit", "mode l2", {"IFLA_NETKIT_MODE": 0})]
)
def test_a_pair(node, kind, words, data):
    if not known_by_ip(kind):
        pytest.skip(f"this iproute2 does not know {kind}")
    own = "mtu 1300 numtxqueues 3 numrxqueues 2"
    far = "name far index 41 mtu 1200 address 02:00:00:00:00:0b numtxqueues 2"
    command = f"ip link add name near index 40 {own} type {kind} {words} peer {far}"
    near = LinkEnd("near", 40, {"mtu": 1300, "num_tx_queues": 3, "num_rx_queues": 2})
    peer = LinkEnd("far", 41, {"mtu": 1200, "mac": "02:00:00:00:00:0b", "num_tx_queues": 2})
    same(node, command, message.new_link(near, kind, data, peer), kind)


@pytest.mark.parametrize("address", ["10.9.0.1/24", "fd09::1/64"])
def test_an_address(node, address):
    words = " nodad" if ":" in address else ""
    interface = ip_interface(address)
    same(node, f"ip address add {address} dev veth0{words}", message.add_address(VETH0, interface))
    same(node, f"ip address del {address} dev veth0", message.delete_address(VETH0, interface))


@pytest.mark.parametrize(
    ("words", "family", "to", "options"),
    [
        ("10.7.0.0/16 via 10.0.0.2 dev veth0", 4, "10.7.0.0/16", {"via": "10.0.0.2"}),
        ("fd07::/64 via fd00::2 dev veth0 metric 50", 6, "fd07::/64", {"via": "fd00::2", "metric": 50}),
        ("default via 10.0.0.2 dev veth0", 4, None, {"via": "10.0.0.2"}),
        ("10.8.0.0/16 dev veth0", 4, "10.8.0.0/16", {}),
        (
            "10.7.0.0/16 via 10.0.0.2 dev veth0 mtu 1400 advmss 1000 initcwnd 20",
            4,
            "10.7.0.0/16",
            {"via": "10.0.0.2", "metrics": {"mtu": 1400, "advmss": 1000, "initcwnd": 20}},
        ),
    ],
)
@pytest.mark.parametrize("verb", ["add", "replace"])
def test_a_route(node, verb, words, family, to, options):
    given = {**options, "via": ip_address(options["via"])} if "via" in options else options
    network = ip_network(to) if to else None
    request = routing.add_route(family, network, ifindex=VETH0, replace=verb == "replace", **given)
    same(node, f"ip -{family} route {verb} {words} proto static", request, "route")


@pytest.mark.parametrize("address", ["10.0.0.9", "fd00::9"])
def test_a_neighbour(node, address):
    request = routing.add_neighbour(VETH0, ip_address(address), "02:00:00:00:00:09")
    same(node, f"ip neigh replace {address} lladdr 02:00:00:00:00:09 dev veth0 nud permanent", request)


@pytest.mark.parametrize("address", ["192.0.2.9", "fd00::9"])
def test_a_forwarding_entry(node, address):
    request = routing.add_forwarding(VETH0, "02:00:00:00:00:09", ip_address(address))
    same(node, f"bridge fdb append 02:00:00:00:00:09 dev veth0 dst {address} self permanent", request)


def root_options(node):
    """TCA_OPTIONS of veth0's root qdisc, as the kernel has them; of netem by number."""
    bodies = [data[16:] for data in node.channel.dump(qdisc_messages.list_qdiscs())]
    ours = [body for body in bodies if struct.unpack_from("=i", body, 4)[0] == VETH0]
    (found,) = [
        attributes(body[20:], {}) for body in ours if struct.unpack_from("=I", body, 12)[0] == 2**32 - 1
    ]
    value = found[(2,)]
    if found[(1,)].startswith(b"netem"):
        # Since Linux 6.7 its last attribute is the seed of its random numbers.
        return attributes(value[24:], {}) | {(14,): b"", "fields": value[:24]}
    return value


def needing(kind, *rest):
    return pytest.param(kind, *rest, marks=pytest.mark.requires(kind))


@pytest.mark.parametrize(
    ("kind", "words", "options"),
    [
        needing(
            "fq",
            "limit 20000 flow_limit 200 maxrate 1gbit",
            {"limit": 20000, "flow_limit": 200, "maxrate": 125_000_000},
        ),
        needing(
            "fq_codel",
            "limit 1024 target 4ms interval 90ms noecn",
            {"limit": 1024, "target": 4000, "interval": 90_000, "ecn": 0},
        ),
        needing(
            "tbf", "rate 1gbit burst 128k limit 256k", {"rate": 125_000_000, "burst": 2**17, "limit": 2**18}
        ),
        needing(
            "tbf", "rate 40gbit burst 8m limit 16m", {"rate": 5_000_000_000, "burst": 2**23, "limit": 2**24}
        ),
        needing(
            "netem",
            "delay 10ms 1ms loss 25% rate 1gbit limit 5000",
            {"delay": 10**7, "jitter": 10**6, "loss": 2**30, "rate": 125_000_000, "limit": 5000},
        ),
        needing("netem", "delay 3ms rate 40gbit", {"delay": 3 * 10**6, "rate": 5_000_000_000}),
    ],
)
def test_a_qdisc_is_what_tc_makes(node, kind, words, options):
    """tc sends tables and ticks beside, so what the kernel makes of it is compared."""
    made = []
    for change in (
        lambda: node.call(subprocess.run, f"tc qdisc add dev veth0 root {kind} {words}".split(), check=True),
        lambda: node.channel.send([qdisc_messages.set_root(VETH0, kind, options)]),
    ):
        node.channel.send([qdisc_messages.delete_root(VETH0)])
        change()
        made.append(root_options(node))
    assert made[0] == made[1]
