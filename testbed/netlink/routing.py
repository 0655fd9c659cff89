"""Ask the kernel which way a packet goes."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from testbed.errors import TestbedError
from testbed.netlink import message
from testbed.netlink.channel import Channel, Refusal
from testbed.netlink.namespaces import own_namespace

RTAX_MTU = 2


@dataclass(frozen=True)
class Route:
    """The way to one address. `gateway` None: it is on the link; `mtu` None: the device's."""

    ifindex: int
    gateway: IPv4Address | IPv6Address | None
    mtu: int | None


def route_to(address: str) -> Route:
    """The route from the calling thread's namespace to `address`. TestbedError when there is none."""
    namespace = own_namespace()
    try:
        channel = Channel(namespace)
        try:
            answer = channel.ask(message.get_route(ip_address(address)))
        finally:
            channel.close()
    finally:
        os.close(namespace)
    if isinstance(answer, Refusal):
        raise TestbedError(f"no route to {address} ({answer})")
    return decode(answer)


def decode(body: bytes) -> Route:
    """A RTM_NEWROUTE as the kernel answers RTM_GETROUTE."""
    found = dict(message.attributes(body, message.ROUTE_HEADER))
    metrics = dict(message.attributes(found.get(message.RTA_METRICS, b"")))
    gateway = found.get(message.RTA_GATEWAY)
    return Route(
        ifindex=struct.unpack("=I", found[message.RTA_OIF])[0],
        gateway=None if gateway is None else ip_address(gateway),
        mtu=struct.unpack("=I", metrics[RTAX_MTU])[0] if RTAX_MTU in metrics else None,
    )
