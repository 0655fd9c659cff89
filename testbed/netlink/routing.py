"""Requests for routes, neighbours and forwarding entries, and their answers decoded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from socket import AF_BRIDGE, AF_INET, AF_INET6, AF_UNSPEC
from typing import Any, NamedTuple

from pyroute2.netlink import NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE
from pyroute2.netlink.rtnl import (
    RTM_GETNEIGH,
    RTM_GETROUTE,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
    rt_proto,
    rt_scope,
    rt_type,
)
from pyroute2.netlink.rtnl.ndmsg import NTF_SELF, NUD_NOARP, NUD_PERMANENT, ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from testbed.errors import TestbedError
from testbed.netlink.channel import Channel, Refusal
from testbed.netlink.lacking import RT_TABLE_MAIN
from testbed.netlink.namespaces import own_namespace
from testbed.netlink.request import Request, decoded, request

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

# Metrics of a route that a topology may state, by the names of `ip route`.
METRICS = {"mtu": "RTAX_MTU", "advmss": "RTAX_ADVMSS", "initcwnd": "RTAX_INITCWND"}
_FAMILY = {4: AF_INET, 6: AF_INET6}
_EVERYWHERE = {AF_INET: "0.0.0.0", AF_INET6: "::"}


class Route(NamedTuple):
    """A route as the kernel reports it. A default route is to the network of prefix length 0.

    via None: on the link. hops: the interface indexes of a route with several next hops. by_hand: made by
    `ip route` or the testbed, not by the kernel or a routing daemon.
    """

    table: int
    to: IPNetwork
    via: IPAddress | None
    ifindex: int | None
    metric: int
    metrics: dict[str, int]
    hops: tuple[int, ...]
    by_hand: bool

    @property
    def ifindexes(self) -> set[int]:
        """Every device that it leads over."""
        return {*self.hops, *([] if self.ifindex is None else [self.ifindex])}


class Neighbour(NamedTuple):
    """A neighbour as the kernel reports it; None for what it does not report."""

    ifindex: int
    address: str | None
    mac: str | None
    permanent: bool


def add_route(
    family: int,
    to: IPNetwork | None,
    *,
    via: IPAddress | None = None,
    ifindex: int | None = None,
    metric: int | None = None,
    metrics: Mapping[str, int] | None = None,
    replace: bool = False,
) -> Request:
    """A unicast route of the main table. family: 4 or 6; to None: the default route; metrics: see METRICS."""
    message = rtmsg()
    message["family"] = _FAMILY[family]
    message["dst_len"] = to.prefixlen if to else 0
    message["table"] = RT_TABLE_MAIN
    message["proto"] = rt_proto["static"]
    message["scope"] = rt_scope["universe" if via is not None or family == 6 else "link"]
    message["type"] = rt_type["unicast"]
    inside = [(METRICS[name], value) for name, value in (metrics or {}).items()]
    message["attrs"] = _given(
        RTA_DST=to and str(to.network_address),
        RTA_GATEWAY=via and str(via),
        RTA_OIF=ifindex,
        RTA_PRIORITY=metric,
        RTA_METRICS={"attrs": inside} if inside else None,
    )
    return request(message, RTM_NEWROUTE, NLM_F_CREATE | (NLM_F_REPLACE if replace else NLM_F_EXCL))


def add_neighbour(ifindex: int, address: IPAddress, mac: str) -> Request:
    """A permanent entry: packets to `address` go to `mac` without asking."""
    message = ndmsg()
    message["family"], message["ifindex"] = _FAMILY[address.version], ifindex
    message["state"] = NUD_PERMANENT
    message["attrs"] = [("NDA_DST", str(address)), ("NDA_LLADDR", mac)]
    return request(message, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE)


def add_forwarding(ifindex: int, mac: str, destination: IPAddress) -> Request:
    """A static entry in the forwarding table of a tunnel itself, beside others for the same `mac`."""
    message = ndmsg()
    message["family"], message["ifindex"] = AF_BRIDGE, ifindex
    message["state"], message["flags"] = NUD_NOARP | NUD_PERMANENT, NTF_SELF
    message["attrs"] = [("NDA_LLADDR", mac), ("NDA_DST", str(destination))]
    return request(message, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_APPEND)


def list_routes() -> Request:
    """All routes, IPv4 and IPv6."""
    message = rtmsg()
    message["family"] = AF_UNSPEC  # pyroute2's default is IPv4
    return request(message, RTM_GETROUTE, NLM_F_DUMP)


def list_neighbours() -> Request:
    return request(ndmsg(), RTM_GETNEIGH, NLM_F_DUMP)


def get_route(destination: IPAddress) -> Request:
    """Ask which route a packet to `destination` takes."""
    message = rtmsg()
    message["family"], message["dst_len"] = _FAMILY[destination.version], destination.max_prefixlen
    message["attrs"] = [("RTA_DST", str(destination))]
    return request(message, RTM_GETROUTE)


def route_to(address: str) -> Route:
    """The route from the calling thread's namespace to `address`. TestbedError when there is none."""
    namespace = own_namespace()
    try:
        channel = Channel(namespace)
        try:
            answer = channel.ask(get_route(ip_address(address)))
        finally:
            channel.close()
    finally:
        os.close(namespace)
    if isinstance(answer, Refusal):
        raise TestbedError(f"no route to {address} ({answer})")
    return decode_route(answer)


def decode_route(data: bytes) -> Route:
    message = decoded(rtmsg, data)
    via = message.get_attr("RTA_GATEWAY")
    to = message.get_attr("RTA_DST") or _EVERYWHERE[message["family"]]
    found = message.get_attr("RTA_METRICS")
    values = {name: found.get_attr(attribute) for name, attribute in METRICS.items()} if found else {}
    return Route(
        table=message["table"],
        to=ip_network((to, message["dst_len"])),
        via=None if via is None else ip_address(via),
        ifindex=message.get_attr("RTA_OIF"),
        metric=message.get_attr("RTA_PRIORITY") or 0,
        metrics={name: value for name, value in values.items() if value is not None},
        hops=tuple(hop["oif"] for hop in message.get_attr("RTA_MULTIPATH") or ()),
        by_hand=message["proto"] in (rt_proto["boot"], rt_proto["static"]),
    )


def decode_neighbour(data: bytes) -> Neighbour:
    message = decoded(ndmsg, data)
    permanent = bool(message["state"] & NUD_PERMANENT)
    return Neighbour(
        message["ifindex"], message.get_attr("NDA_DST"), message.get_attr("NDA_LLADDR"), permanent
    )


def _given(**attributes: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in attributes.items() if value is not None]
