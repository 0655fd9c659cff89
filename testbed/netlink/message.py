"""Netlink requests for links and addresses, and their answers decoded.

The messages are pyroute2's; they are encoded and decoded by remembered.py, as every device takes some.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Interface, IPv6Interface
from socket import AF_INET, AF_INET6
from types import MappingProxyType
from typing import Any, NamedTuple

from pyroute2.netlink import NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL
from pyroute2.netlink.rtnl import RTM_DELADDR, RTM_DELLINK, RTM_GETADDR, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK
from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD, IFA_F_TENTATIVE, ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import IFF_UP

from testbed.netlink.lacking import RTEXT_FILTER_SKIP_STATS, ifinfmsg, ifinfveth
from testbed.netlink.remembered import Answer, Attribute, attribute, encode, holding
from testbed.netlink.request import Request

# Settings that are one 32-bit attribute of a link, by the kernel's names. The
# order is the kernel's in do_setlink (net/core/rtnetlink.c): the general GSO
# and GRO sizes before the IPv4 ones, which they reset when they fall to 65536.
LINK_U32 = {
    "mtu": "IFLA_MTU",
    "txqueuelen": "IFLA_TXQLEN",
    "num_tx_queues": "IFLA_NUM_TX_QUEUES",
    "num_rx_queues": "IFLA_NUM_RX_QUEUES",
    "gso_max_size": "IFLA_GSO_MAX_SIZE",
    "gso_max_segs": "IFLA_GSO_MAX_SEGS",
    "gro_max_size": "IFLA_GRO_MAX_SIZE",
    "gso_ipv4_max_size": "IFLA_GSO_IPV4_MAX_SIZE",
    "gro_ipv4_max_size": "IFLA_GRO_IPV4_MAX_SIZE",
}
# What the kernel reports beside them.
LINK_U32_REPORTED = {
    **LINK_U32,
    "tso_max_size": "IFLA_TSO_MAX_SIZE",
    "tso_max_segs": "IFLA_TSO_MAX_SEGS",
    "max_mtu": "IFLA_MAX_MTU",
}
_SETTINGS = {
    **LINK_U32,
    "mac": "IFLA_ADDRESS",
    "alias": "IFLA_IFALIAS",
    "master": "IFLA_MASTER",
    "link": "IFLA_LINK",
}
Address = IPv4Interface | IPv6Interface
Values = Mapping[str, int | str]
_FAMILY = {4: AF_INET, 6: AF_INET6}


class LinkEnd(NamedTuple):
    """A device to be made. The caller chooses `ifindex`, so that what follows in the same batch can name it.

    values: settings. namespace: a descriptor of where it is made, if not where the message goes.
    """

    name: str
    ifindex: int
    values: Values = MappingProxyType({})
    namespace: int | None = None

    def attributes(self) -> list[Attribute]:
        place = [] if self.namespace is None else [("IFLA_NET_NS_FD", self.namespace)]
        return [("IFLA_IFNAME", self.name), *place, *_settings(self.values)]


class Link(Answer):
    """A device as the kernel reports it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(ifinfmsg, data)

    @property
    def name(self) -> str:
        return str(self.get_attr("IFLA_IFNAME"))

    @property
    def ifindex(self) -> int:
        return self["index"]

    @property
    def up(self) -> bool:
        return bool(self["flags"] & IFF_UP)


class ActualAddress(NamedTuple):
    """An address as the kernel reports it."""

    ifindex: int
    address: Address
    tentative: bool


def new_link(
    end: LinkEnd, kind: str, data: Mapping[str, Any] | None = None, peer: LinkEnd | None = None
) -> Request:
    """Create a link of `kind`. data: the attributes that only this kind has; peer: the far end of a pair."""
    info = ifinfmsg.ifinfo
    inside = [attribute(info.data_map[kind], name, value) for name, value in (data or {}).items()]
    if peer:
        inside.append(_far_end(info.data_map[kind], peer))
    parts = [attribute(info, "IFLA_INFO_KIND", kind)]
    if inside:
        parts.append(holding(info, "IFLA_INFO_DATA", *inside))
    last = holding(ifinfmsg, "IFLA_LINKINFO", *parts)
    body = encode(ifinfmsg, {"index": end.ifindex}, end.attributes(), last)
    return Request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body)


def _far_end(kind: Any, peer: LinkEnd) -> bytes:
    """A message within an attribute, which every kind made in pairs has in its first."""
    name = kind.nla_map[1][0]
    return holding(kind, name, encode(ifinfveth, {"index": peer.ifindex}, peer.attributes()))


def set_link(name: str, values: Values, *, up: bool | None = None) -> Request:
    """Change settings of the device `name`, and bring it up or down."""
    fields = {} if up is None else {"flags": IFF_UP if up else 0, "change": IFF_UP}
    return Request(RTM_NEWLINK, 0, encode(ifinfmsg, fields, [("IFLA_IFNAME", name), *_settings(values)]))


def move_link(name: str, namespace: int) -> Request:
    """Move the device `name` to the namespace of a descriptor, under the same name."""
    attributes = [("IFLA_IFNAME", name), ("IFLA_NET_NS_FD", namespace)]
    return Request(RTM_NEWLINK, 0, encode(ifinfmsg, {}, attributes))


def delete_link(name: str) -> Request:
    return Request(RTM_DELLINK, 0, encode(ifinfmsg, {}, [("IFLA_IFNAME", name)]))


def _settings(values: Values) -> list[Attribute]:
    """The attributes of settings: sizes, a MAC, an alias, the index of a master or lower device."""
    return [(_SETTINGS[name], value) for name, value in values.items()]


def add_address(ifindex: int, address: Address) -> Request:
    """Give `address` to a device; IPv6 without duplicate address detection."""
    flags = IFA_F_NODAD if address.version == 6 else 0
    return Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, _address(ifindex, address, flags))


def delete_address(ifindex: int, address: Address) -> Request:
    return Request(RTM_DELADDR, 0, _address(ifindex, address, 0))


def _address(ifindex: int, address: Address, flags: int) -> bytes:
    fields = {
        "family": _FAMILY[address.version],
        "prefixlen": address.network.prefixlen,
        "flags": flags,
        "index": ifindex,
    }
    names = ("IFA_LOCAL", "IFA_ADDRESS")
    return encode(ifaddrmsg, fields, [], *(holding(ifaddrmsg, name, address.ip.packed) for name in names))


def list_links(*, stats: bool = False) -> Request:
    """All devices, each a `Link`; with their counters where `stats`."""
    mask = 0 if stats else RTEXT_FILTER_SKIP_STATS
    return Request(RTM_GETLINK, NLM_F_DUMP, encode(ifinfmsg, {}, [("IFLA_EXT_MASK", mask)]))


def list_addresses() -> Request:
    return Request(RTM_GETADDR, NLM_F_DUMP, encode(ifaddrmsg, {}, []))


def decode_address(data: bytes) -> ActualAddress:
    answer = Answer(ifaddrmsg, data)
    flags = answer.get_attr("IFA_FLAGS", answer["flags"])
    own = answer.packed("IFA_LOCAL") or answer.packed("IFA_ADDRESS")
    interface = IPv4Interface if answer["family"] == AF_INET else IPv6Interface
    return ActualAddress(
        answer["index"], interface((own, answer["prefixlen"])), bool(flags & IFA_F_TENTATIVE)
    )
