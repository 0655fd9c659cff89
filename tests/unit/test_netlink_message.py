"""The encoder for hot messages gives what pyroute2 gives, attribute by attribute and byte by byte."""

from ipaddress import ip_address, ip_interface, ip_network

import pytest
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from testbed.netlink import message

HEADER = 16


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


def test_a_veth_pair_with_both_ends_placed_named_and_sized():
    peer_attrs = [("IFLA_IFNAME", "port0"), ("IFLA_NET_NS_FD", 7)]
    peer_attrs += [("IFLA_MTU", 1500), ("IFLA_GRO_MAX_SIZE", 70000)]
    peer_value = {"index": 3, "attrs": peer_attrs}
    theirs = link(
        [
            ("IFLA_IFNAME", "veth0"),
            ("IFLA_MTU", 9000),
            ("IFLA_GSO_MAX_SIZE", 524280),
            (
                "IFLA_LINKINFO",
                {
                    "attrs": [
                        ("IFLA_INFO_KIND", "veth"),
                        ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", peer_value)]}),
                    ]
                },
            ),
        ],
        index=2,
    )
    other = message.link_body("port0", 3, {"mtu": 1500, "gro_max_size": 70000}, namespace=7)
    ours = message.new_link(
        message.link_body("veth0", 2, {"mtu": 9000, "gso_max_size": 524280}),
        message.link_info("veth", peer=other),
    )
    assert unnested(ours.body) == unnested(body(theirs))


def unnested(data):
    """pyroute2 marks nested attributes with NLA_F_NESTED or not, by version; the kernel takes both here."""
    found = {}
    for kind, value in message.attributes(data, 16):
        if kind == message.IFLA_LINKINFO:
            inner = dict(message.attributes(value))
            peer = dict(message.attributes(inner[message.IFLA_INFO_DATA]))[message.VETH_INFO_PEER]
            value = (inner[message.IFLA_INFO_KIND], peer)
        found[kind] = value
    return data[:16], found


def test_changing_a_link():
    theirs = link([("IFLA_IFNAME", "veth0"), ("IFLA_MTU", 1400), ("IFLA_TXQLEN", 7)], flags=1, change=1)
    assert message.set_link("veth0", {"mtu": 1400, "txqueuelen": 7}, up=True).body == body(theirs)


def test_a_mac_address():
    theirs = link([("IFLA_IFNAME", "veth0"), ("IFLA_ADDRESS", "02:00:00:00:00:0a")])
    assert message.set_link("veth0", {"mac": "02:00:00:00:00:0a"}).body == body(theirs)


@pytest.mark.parametrize("address", ["10.1.0.1/24", "fd01::1/64"])
def test_an_address(address):
    interface = ip_interface(address)
    theirs = ifaddrmsg()
    theirs["family"] = 2 if interface.version == 4 else 10
    theirs["prefixlen"] = interface.network.prefixlen
    theirs["flags"] = 0 if interface.version == 4 else message.IFA_F_NODAD
    theirs["index"] = 9
    theirs["attrs"] = [("IFA_LOCAL", str(interface.ip)), ("IFA_ADDRESS", str(interface.ip))]
    assert message.add_address(9, interface).body == body(theirs)


@pytest.mark.parametrize(
    ("family", "to", "via"),
    [(4, "10.9.0.0/16", "10.1.0.2"), (6, "fd09::/64", "fd01::2"), (4, None, "10.1.0.2")],
)
def test_a_route(family, to, via):
    network = ip_network(to) if to else None
    theirs = rtmsg()
    theirs["family"] = 2 if family == 4 else 10
    theirs["dst_len"] = network.prefixlen if network else 0
    theirs["table"], theirs["proto"], theirs["type"] = 254, 4, 1
    theirs["attrs"] = [("RTA_DST", str(network.network_address))] if network else []
    theirs["attrs"] += [("RTA_GATEWAY", via), ("RTA_OIF", 3), ("RTA_PRIORITY", 50)]
    ours = message.add_route(family, network, via=ip_address(via), ifindex=3, metric=50)
    assert ours.body == body(theirs)


def test_a_decoded_link_gives_back_what_was_encoded():
    values = {"mtu": 1500, "gso_ipv4_max_size": 128000}
    held = message.decode_link(message.link_body("veth0", 5, values))
    assert (held.name, held.ifindex) == ("veth0", 5)
    assert held.u32(message.IFLA_GSO_IPV4_MAX_SIZE) == 128000
    assert held.u32(message.IFLA_GSO_MAX_SIZE) is None
