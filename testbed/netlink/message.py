"""The few rtnetlink messages that building a lab sends most, encoded and decoded without pyroute2.

A veth pair costs pyroute2 about a millisecond to encode, which is more than the
kernel takes to make it. The tests hold these encodings against pyroute2's, byte
by byte.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
RTM_NEWNEIGH, RTM_GETNEIGH = 28, 30
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800
IFF_UP = 0x1

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_QDISC = 1, 3, 4, 5, 6
IFLA_MASTER, IFLA_TXQLEN, IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_IFALIAS = 10, 13, 16, 18, 20
IFLA_STATS64, IFLA_NET_NS_FD, IFLA_EXT_MASK, IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES = 23, 28, 29, 31, 32
IFLA_CARRIER, IFLA_GSO_MAX_SEGS, IFLA_GSO_MAX_SIZE, IFLA_MIN_MTU, IFLA_MAX_MTU = 33, 40, 41, 50, 51
IFLA_GRO_MAX_SIZE, IFLA_TSO_MAX_SIZE, IFLA_TSO_MAX_SEGS = 58, 59, 60
IFLA_GSO_IPV4_MAX_SIZE, IFLA_GRO_IPV4_MAX_SIZE = 63, 64
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
RTEXT_FILTER_SKIP_STATS = 1 << 3

IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
IFA_F_NODAD, IFA_F_TENTATIVE, IFA_F_PERMANENT = 0x02, 0x40, 0x80

RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_METRICS, RTA_MULTIPATH = 1, 4, 5, 6, 8, 9
RTAX = {"mtu": 2, "advmss": 8, "initcwnd": 11}
RT_TABLE_MAIN, RTPROT_BOOT, RTPROT_STATIC, RTN_UNICAST = 254, 3, 4, 1
RT_SCOPE_UNIVERSE, RT_SCOPE_LINK = 0, 253

# Settings that are one 32-bit attribute of a link, by the kernel's names. The
# order is the kernel's in do_setlink (net/core/rtnetlink.c): the general GSO
# and GRO sizes before the IPv4 ones, which they reset when they fall to 65536.
LINK_U32 = {
    "mtu": IFLA_MTU,
    "txqueuelen": IFLA_TXQLEN,
    "num_tx_queues": IFLA_NUM_TX_QUEUES,
    "num_rx_queues": IFLA_NUM_RX_QUEUES,
    "gso_max_size": IFLA_GSO_MAX_SIZE,
    "gso_max_segs": IFLA_GSO_MAX_SEGS,
    "gro_max_size": IFLA_GRO_MAX_SIZE,
    "gso_ipv4_max_size": IFLA_GSO_IPV4_MAX_SIZE,
    "gro_ipv4_max_size": IFLA_GRO_IPV4_MAX_SIZE,
}
# What the kernel reports beside them.
LINK_U32_REPORTED = {
    **LINK_U32,
    "tso_max_size": IFLA_TSO_MAX_SIZE,
    "tso_max_segs": IFLA_TSO_MAX_SEGS,
    "max_mtu": IFLA_MAX_MTU,
}

NDA_DST, NDA_LLADDR, NTF_SELF, NUD_NOARP, NUD_PERMANENT = 1, 2, 0x02, 0x40, 0x80

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBi")
_NEIGHBOUR = struct.Struct("=BxxxiHBB")
_ROUTE = struct.Struct("=BBBBBBBBI")
ROUTE_HEADER = _ROUTE.size
_ATTRIBUTE = struct.Struct("=HH")
_U32 = struct.Struct("=I")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
_STATS64 = struct.Struct("=8Q")
Address = IPv4Interface | IPv6Interface
Attributes = dict[int, bytes]


class Request(NamedTuple):
    """A message without its header's sequence number, which the channel gives it."""

    type: int
    flags: int
    body: bytes

    def encode(self, sequence: int, flags: int = 0) -> bytes:
        return (
            _HEADER.pack(16 + len(self.body), self.type, NLM_F_REQUEST | self.flags | flags, sequence, 0)
            + self.body
        )


class Link(NamedTuple):
    """A decoded RTM_NEWLINK: the fixed part and the attributes as bytes by their number."""

    ifindex: int
    flags: int
    attributes: Attributes

    @property
    def name(self) -> str:
        return self.attributes[IFLA_IFNAME].rstrip(b"\0").decode()

    def u32(self, attribute: int) -> int | None:
        raw = self.attributes.get(attribute)
        return None if raw is None else int(_U32.unpack(raw)[0])

    def text(self, attribute: int) -> str | None:
        raw = self.attributes.get(attribute)
        return None if raw is None else raw.rstrip(b"\0").decode()


class HeldAddress(NamedTuple):
    """A decoded RTM_NEWADDR."""

    ifindex: int
    address: Address
    tentative: bool


class HeldRoute(NamedTuple):
    """A decoded RTM_NEWROUTE. A default route is to the network of prefix length 0.

    `by_hand`: made by `ip route` or the testbed, not by the kernel or a routing daemon.
    """

    table: int
    to: IPv4Network | IPv6Network
    via: IPv4Address | IPv6Address | None
    ifindex: int | None
    metric: int
    metrics: dict[str, int]
    by_hand: bool


class HeldNeighbour(NamedTuple):
    """A decoded RTM_NEWNEIGH: address and MAC."""

    ifindex: int
    address: bytes
    mac: str
    permanent: bool


def new_link(body: bytes, info: bytes) -> Request:
    """Create the link of `body` (from `link_body`) and `info` (from `link_info`)."""
    return Request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body + info)


def link_info(kind: str, data: bytes = b"", peer: bytes | None = None) -> bytes:
    """IFLA_LINKINFO: `data` holds the kind's own attributes, `peer` is a body from `link_body` for a pair.

    Every kind made in pairs has its peer in attribute 1 (VETH_INFO_PEER, IFLA_NETKIT_PEER_INFO).
    """
    if peer is not None:
        data += attribute(VETH_INFO_PEER, peer)
    own = nested(IFLA_INFO_DATA, data) if data else b""
    return nested(IFLA_LINKINFO, text_attribute(IFLA_INFO_KIND, kind) + own)


def link_body(
    name: str, ifindex: int, values: Mapping[str, int | str], *, namespace: int | None = None
) -> bytes:
    """ifinfomsg with the attributes of a link to be made, in the namespace of a descriptor.

    The caller chooses `ifindex`, so that what follows in the same batch can name it.
    """
    parts = [_LINK.pack(0, 0, ifindex, 0, 0), text_attribute(IFLA_IFNAME, name)]
    if namespace is not None:
        parts.append(u32(IFLA_NET_NS_FD, namespace))
    parts.extend(setting(key, value) for key, value in values.items())
    return b"".join(parts)


def set_link(name: str, values: Mapping[str, int | str], *, up: bool | None = None) -> Request:
    """Change settings of the device `name`, and bring it up or down."""
    flags, change = (IFF_UP if up else 0), (0 if up is None else IFF_UP)
    parts = [_LINK.pack(0, 0, 0, flags, change), text_attribute(IFLA_IFNAME, name)]
    parts.extend(setting(key, value) for key, value in values.items())
    return Request(RTM_NEWLINK, 0, b"".join(parts))


def move_link(name: str, namespace: int) -> Request:
    """Move the device `name` to the namespace of a descriptor, under the same name."""
    body = _LINK.pack(0, 0, 0, 0, 0) + text_attribute(IFLA_IFNAME, name)
    return Request(RTM_NEWLINK, 0, body + u32(IFLA_NET_NS_FD, namespace))


def delete_link(name: str) -> Request:
    return Request(RTM_DELLINK, 0, _LINK.pack(0, 0, 0, 0, 0) + text_attribute(IFLA_IFNAME, name))


def setting(name: str, value: int | str) -> bytes:
    """The attribute of one setting: a size, a MAC, an alias, the index of a master or lower device."""
    if name in LINK_U32:
        return u32(LINK_U32[name], int(value))
    if name == "mac":
        return attribute(IFLA_ADDRESS, bytes.fromhex(str(value).replace(":", "")))
    if name == "alias":
        return attribute(IFLA_IFALIAS, str(value).encode())
    return u32({"master": IFLA_MASTER, "link": IFLA_LINK}[name], int(value))


def add_address(ifindex: int, address: Address) -> Request:
    """Give `address` to a device; IPv6 without duplicate address detection."""
    return Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, _address_body(ifindex, address, IFA_F_NODAD))


def delete_address(ifindex: int, address: Address) -> Request:
    return Request(RTM_DELADDR, 0, _address_body(ifindex, address, 0))


def _address_body(ifindex: int, address: Address, flags: int) -> bytes:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    packed = address.ip.packed
    flags = flags if address.version == 6 else 0
    return (
        _ADDRESS.pack(family, address.network.prefixlen, flags, 0, ifindex)
        + attribute(IFA_LOCAL, packed)
        + attribute(IFA_ADDRESS, packed)
    )


def add_route(
    family: int,
    to: IPv4Network | IPv6Network | None,
    *,
    via: IPv4Address | IPv6Address | None = None,
    ifindex: int | None = None,
    metric: int | None = None,
    metrics: bytes = b"",
    replace: bool = False,
) -> Request:
    """A unicast route of the main table. `to` None: the default route; `metrics`: RTAX attributes."""
    scope = RT_SCOPE_UNIVERSE if via is not None or family == 6 else RT_SCOPE_LINK
    prefix = 0 if to is None else to.prefixlen
    af = socket.AF_INET if family == 4 else socket.AF_INET6
    parts = [_ROUTE.pack(af, prefix, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST, 0)]
    if to is not None:
        parts.append(attribute(RTA_DST, to.network_address.packed))
    if via is not None:
        parts.append(attribute(RTA_GATEWAY, via.packed))
    if ifindex is not None:
        parts.append(u32(RTA_OIF, ifindex))
    if metric is not None:
        parts.append(u32(RTA_PRIORITY, metric))
    if metrics:
        parts.append(nested(RTA_METRICS, metrics))
    flags = NLM_F_CREATE | (NLM_F_REPLACE if replace else NLM_F_EXCL)
    return Request(RTM_NEWROUTE, flags, b"".join(parts))


def route_metrics(values: Mapping[str, int]) -> bytes:
    """The RTAX attributes of a route, by the names of `ip route`."""
    return b"".join(u32(RTAX[name], value) for name, value in values.items())


def add_neighbour(ifindex: int, address: IPv4Address | IPv6Address, mac: str) -> Request:
    """A permanent entry: packets to `address` go to `mac` without asking."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    body = _NEIGHBOUR.pack(family, ifindex, NUD_PERMANENT, 0, 0) + attribute(NDA_DST, address.packed)
    body += attribute(NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))
    return Request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body)


def add_forwarding(ifindex: int, mac: str, destination: IPv4Address | IPv6Address) -> Request:
    """A static entry in the forwarding table of a tunnel itself, beside others for the same `mac`."""
    head = _NEIGHBOUR.pack(socket.AF_BRIDGE, ifindex, NUD_NOARP | NUD_PERMANENT, NTF_SELF, 0)
    body = head + attribute(NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))
    return Request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_APPEND, body + attribute(NDA_DST, destination.packed))


def list_links(*, stats: bool = False) -> Request:
    mask = u32(IFLA_EXT_MASK, 0 if stats else RTEXT_FILTER_SKIP_STATS)
    return Request(RTM_GETLINK, NLM_F_DUMP, _LINK.pack(0, 0, 0, 0, 0) + mask)


def list_addresses() -> Request:
    return Request(RTM_GETADDR, NLM_F_DUMP, _ADDRESS.pack(0, 0, 0, 0, 0))


def get_route(destination: IPv4Address | IPv6Address) -> Request:
    """Ask which route a packet to `destination` takes."""
    family = socket.AF_INET if destination.version == 4 else socket.AF_INET6
    head = _ROUTE.pack(family, destination.max_prefixlen, 0, 0, 0, 0, 0, 0, 0)
    return Request(RTM_GETROUTE, 0, head + attribute(RTA_DST, destination.packed))


def list_routes() -> Request:
    return Request(RTM_GETROUTE, NLM_F_DUMP, _ROUTE.pack(0, 0, 0, 0, 0, 0, 0, 0, 0))


def decode_link(body: bytes) -> Link:
    _, _, ifindex, flags, _ = _LINK.unpack_from(body)
    return Link(ifindex, flags, dict(attributes(body, _LINK.size)))


def decode_address(body: bytes) -> HeldAddress:
    family, prefix, flags, _, ifindex = _ADDRESS.unpack_from(body)
    held = dict(attributes(body, _ADDRESS.size))
    if IFA_FLAGS in held:
        flags = _U32.unpack(held[IFA_FLAGS])[0]
    packed = held.get(IFA_LOCAL) or held[IFA_ADDRESS]
    interface = IPv4Interface if family == socket.AF_INET else IPv6Interface
    return HeldAddress(ifindex, interface((packed, prefix)), bool(flags & IFA_F_TENTATIVE))


def decode_route(body: bytes) -> HeldRoute:
    family, prefix, _, _, table, protocol, _, _, _ = _ROUTE.unpack_from(body)
    held = dict(attributes(body, _ROUTE.size))
    zero = bytes(4 if family == socket.AF_INET else 16)
    values = dict(attributes(held.get(RTA_METRICS, b"")))
    gateway, index, metric = held.get(RTA_GATEWAY), held.get(RTA_OIF), held.get(RTA_PRIORITY)
    return HeldRoute(
        table=table,
        to=ip_network((held.get(RTA_DST, zero), prefix)),
        via=None if gateway is None else ip_address(gateway),
        ifindex=None if index is None else int(_U32.unpack(index)[0]),
        metric=0 if metric is None else int(_U32.unpack(metric)[0]),
        metrics={name: int(_U32.unpack(values[n])[0]) for name, n in RTAX.items() if n in values},
        by_hand=protocol in (RTPROT_BOOT, RTPROT_STATIC),
    )


def list_neighbours() -> Request:
    return Request(RTM_GETNEIGH, NLM_F_DUMP, _NEIGHBOUR.pack(0, 0, 0, 0, 0))


def decode_neighbour(body: bytes) -> HeldNeighbour:
    _, ifindex, state, _, _ = _NEIGHBOUR.unpack_from(body)
    held = dict(attributes(body, _NEIGHBOUR.size))
    mac = held.get(NDA_LLADDR, b"").hex(":")
    return HeldNeighbour(ifindex, held.get(NDA_DST, b""), mac, bool(state & NUD_PERMANENT))


def decode_stats(raw: bytes) -> tuple[int, ...]:
    """rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped."""
    return _STATS64.unpack_from(raw)


def attributes(data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """The attributes in `data` from `offset`: (number without its flags, value)."""
    while offset + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            return
        yield kind & 0x3FFF, data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + _PADDING[len(value) & 3]


def nested(kind: int, value: bytes) -> bytes:
    return attribute(kind, value)


def text_attribute(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def u32(kind: int, value: int) -> bytes:
    return _ATTRIBUTE.pack(8, kind) + _U32.pack(value)
