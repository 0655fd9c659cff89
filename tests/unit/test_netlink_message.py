"""Remembered encoding and decoding gives what pyroute2 gives, and its tables have the kernel's numbers."""

from ipaddress import ip_address, ip_interface, ip_network

import pytest
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from testbed.netlink import message, remembered, routing
from testbed.netlink.message import LinkEnd

HEADER = 16
VALUES = {"mac": "02:00:00:00:00:0a", "alias": "testbed:lab:client"}
KINDS = {
    "bridge": {},
    "dummy": {},
    "vxlan": {
        "IFLA_VXLAN_ID": 7,
        "IFLA_VXLAN_LINK": 3,
        "IFLA_VXLAN_GROUP": "192.0.2.1",
        "IFLA_VXLAN_LOCAL6": "fd00::1",
        "IFLA_VXLAN_PORT": 4789,
        "IFLA_VXLAN_LEARNING": 0,
    },
    "geneve": {"IFLA_GENEVE_ID": 7, "IFLA_GENEVE_REMOTE6": "fd00::1", "IFLA_GENEVE_PORT": 6081},
    "macvlan": {"IFLA_MACVLAN_MODE": "bridge"},
    "ipvlan": {"IFLA_IPVLAN_MODE": 1, "IFLA_IPVLAN_FLAGS": 2},
    "vlan": {"IFLA_VLAN_ID": 5, "IFLA_VLAN_PROTOCOL": 0x88A8},
}


def body(made):
    """What pyroute2 puts behind the netlink header."""
    made.encode()
    return bytes(made.data[HEADER:])


def link(attrs, **fields):
    made = ifinfmsg()
    for name, value in fields.items():
        made[name] = value
    made["attrs"] = attrs
    return made


def answer(request):
    """The same message as the kernel would send it."""
    size = HEADER + len(request.body)
    return remembered.MESSAGE_HEADER.pack(size, request.type, 0, 1, 0) + request.body


@pytest.mark.parametrize("kind", ["veth", "netkit"])
def test_a_pair_with_both_ends_placed_named_and_sized(kind):
    holder = {"veth": "VETH_INFO_PEER", "netkit": "IFLA_NETKIT_PEER_INFO"}[kind]
    own = {"netkit": {"IFLA_NETKIT_MODE": 1}}.get(kind, {})
    far = [("IFLA_IFNAME", "port0"), ("IFLA_NET_NS_FD", 7), ("IFLA_MTU", 1500), ("IFLA_GRO_MAX_SIZE", 70000)]
    data = [*own.items(), (holder, {"index": 3, "attrs": far})]
    info = [("IFLA_INFO_KIND", kind), ("IFLA_INFO_DATA", {"attrs": data})]
    near = [("IFLA_IFNAME", "veth0"), ("IFLA_MTU", 9000), ("IFLA_GSO_MAX_SIZE", 524280)]
    theirs = link([*near, ("IFLA_LINKINFO", {"attrs": info})], index=2)
    ours = message.new_link(
        LinkEnd("veth0", 2, {"mtu": 9000, "gso_max_size": 524280}),
        kind,
        own,
        LinkEnd("port0", 3, {"mtu": 1500, "gro_max_size": 70000}, namespace=7),
    )
    assert ours.body == body(theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_that_is_made_alone(kind):
    info = [("IFLA_INFO_KIND", kind)]
    if KINDS[kind]:
        info.append(("IFLA_INFO_DATA", {"attrs": list(KINDS[kind].items())}))
    theirs = link([("IFLA_IFNAME", "made"), ("IFLA_LINKINFO", {"attrs": info})], index=5)
    assert message.new_link(LinkEnd("made", 5), kind, KINDS[kind]).body == body(theirs)


@pytest.mark.parametrize("name", message._SETTINGS)
def test_every_setting_is_sent_and_read_as_pyroute2_does(name):
    value = VALUES.get(name, 70000)
    request = message.set_link("veth0", {name: value}, up=True)
    attribute = message._SETTINGS[name]
    theirs = link([("IFLA_IFNAME", "veth0"), (attribute, value)], flags=1, change=1)
    assert request.body == body(theirs)
    assert message.Link(answer(request)).get_attr(attribute) == value


@pytest.mark.parametrize("address", ["10.1.0.1/24", "fd01::1/64"])
def test_an_address(address):
    interface = ip_interface(address)
    theirs = ifaddrmsg()
    theirs["family"] = 2 if interface.version == 4 else 10
    theirs["prefixlen"] = interface.network.prefixlen
    theirs["flags"] = 0 if interface.version == 4 else 2
    theirs["index"] = 9
    theirs["attrs"] = [("IFA_LOCAL", str(interface.ip)), ("IFA_ADDRESS", str(interface.ip))]
    request = message.add_address(9, interface)
    assert request.body == body(theirs)
    assert message.decode_address(answer(request)) == (9, interface, False)


@pytest.mark.parametrize(
    ("family", "to", "via"),
    [(4, "10.9.0.0/16", "10.1.0.2"), (6, "fd09::/64", "fd01::2"), (4, None, "10.1.0.2"), (6, None, None)],
)
def test_a_route_is_read_as_it_was_sent(family, to, via):
    network = ip_network(to) if to else None
    gateway = ip_address(via) if via else None
    metrics = {"mtu": 1400, "initcwnd": 20}
    sent = routing.add_route(family, network, via=gateway, ifindex=3, metric=50, metrics=metrics)
    found = routing.decode_route(answer(sent))
    everywhere = ip_network("0.0.0.0/0" if family == 4 else "::/0")
    assert found == (254, network or everywhere, gateway, 3, 50, metrics, (), True)
    assert found.ifindexes == {3}


def test_all_routes_are_asked_for_and_not_only_ipv4():
    """pyroute2's default for a route's family is IPv4."""
    made = rtmsg()
    made["family"] = 0
    assert routing.list_routes().body == body(made)


def test_what_a_link_does_not_have_is_none_or_the_default():
    found = message.Link(answer(message.set_link("veth0", {"mtu": 1500})))
    assert (found.name, found.ifindex, found.up) == ("veth0", 0, False)
    assert found.get_attr("IFLA_GSO_MAX_SIZE") is None
    assert found.get_attr("IFLA_OPERSTATE", "UNKNOWN") == "UNKNOWN"


def test_an_attribute_that_pyroute2_does_not_know_is_an_error_and_not_dropped():
    with pytest.raises(KeyError, match="IFLA_NONSENSE"):
        remembered.attribute(ifinfmsg, "IFLA_NONSENSE", 1)
    with pytest.raises(KeyError, match="IFLA_NONSENSE"):
        message.Link(answer(message.set_link("veth0", {}))).get_attr("IFLA_NONSENSE")
    with pytest.raises(KeyError, match="IFLA_VXLAN_NONSENSE"):
        message.new_link(LinkEnd("made", 5), "vxlan", {"IFLA_VXLAN_NONSENSE": 1})


def test_long_attributes_are_not_remembered():
    """Counters never come twice: they would push out what does."""
    before = remembered._decoded.cache_info().currsize
    sent = message.set_link("veth0", {"alias": "a" * remembered.LONGEST_REMEMBERED})
    assert message.Link(answer(sent)).get_attr("IFLA_IFALIAS").startswith("aaa")
    assert remembered._decoded.cache_info().currsize == before
