"""IFLA_INFO_DATA: the attributes that only one kind of link has, by the kernel's names.

Numbers are those of include/uapi/linux/if_link.h. Written out here because
pyroute2 takes a second to import, knows no netkit, and drops what it does not
know; the tests hold these encodings against pyroute2's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

from testbed.netlink.message import attribute

Encoder = Callable[[Any], bytes]


def _number(layout: str) -> Encoder:
    return lambda value: struct.pack(layout, int(value))


def _address(value: Any) -> bytes:
    return ip_address(str(value)).packed


U8, U16, U32, BE16 = _number("=B"), _number("=H"), _number("=I"), _number("!H")

ATTRIBUTES: Mapping[str, Mapping[str, tuple[int, Encoder]]] = {
    "vxlan": {
        "IFLA_VXLAN_ID": (1, U32),
        "IFLA_VXLAN_GROUP": (2, _address),
        "IFLA_VXLAN_LINK": (3, U32),
        "IFLA_VXLAN_LOCAL": (4, _address),
        "IFLA_VXLAN_TTL": (5, U8),
        "IFLA_VXLAN_LEARNING": (7, U8),
        "IFLA_VXLAN_PORT": (15, BE16),
        "IFLA_VXLAN_GROUP6": (16, _address),
        "IFLA_VXLAN_LOCAL6": (17, _address),
        "IFLA_VXLAN_UDP_CSUM": (18, U8),
        "IFLA_VXLAN_UDP_ZERO_CSUM6_TX": (19, U8),
        "IFLA_VXLAN_UDP_ZERO_CSUM6_RX": (20, U8),
    },
    "geneve": {
        "IFLA_GENEVE_ID": (1, U32),
        "IFLA_GENEVE_REMOTE": (2, _address),
        "IFLA_GENEVE_TTL": (3, U8),
        "IFLA_GENEVE_PORT": (5, BE16),
        "IFLA_GENEVE_REMOTE6": (7, _address),
        "IFLA_GENEVE_UDP_CSUM": (8, U8),
        "IFLA_GENEVE_UDP_ZERO_CSUM6_TX": (9, U8),
        "IFLA_GENEVE_UDP_ZERO_CSUM6_RX": (10, U8),
    },
    "netkit": {"IFLA_NETKIT_MODE": (5, U32)},
    "macvlan": {"IFLA_MACVLAN_MODE": (1, U32)},
    "ipvlan": {"IFLA_IPVLAN_MODE": (1, U16), "IFLA_IPVLAN_FLAGS": (2, U16)},
    "vlan": {"IFLA_VLAN_ID": (1, U16), "IFLA_VLAN_PROTOCOL": (5, BE16)},
}


def link_data(kind: str, values: Mapping[str, Any]) -> bytes:
    """The attributes `values` of a link of `kind`, in their order. KeyError for one that is not known."""
    parts = []
    for name, value in values.items():
        number, encode = ATTRIBUTES[kind][name]
        parts.append(attribute(number, encode(value)))
    return b"".join(parts)
