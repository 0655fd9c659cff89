"""Which link kinds and queueing disciplines the kernel makes, and how large their packets may be.

Each is made in a namespace of its own that nobody else sees and that goes with this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from testbed.capabilities import Found
from testbed.errors import MissingCapability
from testbed.links import KINDS

if TYPE_CHECKING:
    from pyroute2 import IPRoute

T = TypeVar("T")
_MTUS = (68, 2**31 - 1)


def _link(name: str, kind: str, arguments: dict[str, Any]) -> Found:
    """Whether a device of `kind` can be made, its largest MTU and its tso_max_size, both in bytes."""

    def limits(netlink: IPRoute, lower: int) -> tuple[int, int]:
        if _LOWER in arguments.values():
            # An upper device takes no more than its lower one has.
            largest(partial(_takes_mtu, netlink, lower), *_MTUS)
        given = {key: lower if value is _LOWER else value for key, value in arguments.items()}
        device = _make(netlink, ifname="tried", kind=kind, **given)
        tso_max_size = netlink.link("get", index=device)[0].get_attr("IFLA_TSO_MAX_SIZE")
        return largest(partial(_takes_mtu, netlink, device), *_MTUS), int(tso_max_size or 0)

    try:
        max_mtu, tso_max_size = _tried(limits, KINDS[name].kernel_option)
    except MissingCapability as error:
        return {name: False}, str(error)
    return {name: True, f"{name}.max_mtu": max_mtu, f"{name}.tso_max_size": tso_max_size}, ""


def _qdisc(name: str, kernel_option: str, arguments: dict[str, Any]) -> Found:
    try:
        _tried(lambda netlink, lower: netlink.tc("add", kind=name, index=lower, **arguments), kernel_option)
    except MissingCapability as error:
        return {name: False}, str(error)
    return {name: True}, ""


def largest(takes: Callable[[int], bool], low: int, high: int) -> int:
    """The largest value from `low` to `high` that is taken, by bisection; `low` is known to be."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if takes(middle) else (low, middle - 1)
    return low


def _tried(function: Callable[[IPRoute, int], T], kernel_option: str) -> T:
    """`function` of a netlink socket in a fresh namespace and of a veth there.

    MissingCapability, with the kernel's words and what to turn on, where it refuses.
    """
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    from testbed.netlink.namespaces import entered, new_namespace

    namespace = new_namespace()
    try:
        with entered(namespace), IPRoute(ext_ack=True) as netlink:
            return function(netlink, _make(netlink, ifname="lower", kind="veth", peer="far"))
    except NetlinkError as error:
        words = f"the kernel says '{error.args[-1]}' (kernel option {kernel_option})"
        raise MissingCapability(words) from None
    finally:
        os.close(namespace)


def _make(netlink: IPRoute, **device: Any) -> int:
    """The index of a new device."""
    netlink.link("add", **device)
    return int(netlink.link_lookup(ifname=device["ifname"])[0])


def _takes_mtu(netlink: IPRoute, index: int, mtu: int) -> bool:
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        netlink.link("set", index=index, mtu=mtu)
    except NetlinkError:
        return False
    return True


_LOWER = object()  # stands for the index of the veth that an upper device is made over

# Name -> the kind as netlink spells it, and what it cannot be made without.
_LINKS: dict[str, tuple[str, dict[str, Any]]] = {
    "veth": ("veth", {"peer": "peer"}),
    "bridge": ("bridge", {}),
    "tap": ("tuntap", {"mode": "tap"}),
    "vxlan": ("vxlan", {"vxlan_id": 1}),
    "geneve": ("geneve", {"geneve_id": 1, "geneve_remote": "192.0.2.1"}),
    "netkit": ("netkit", {}),
    "macvlan": ("macvlan", {"link": _LOWER, "macvlan_mode": "bridge"}),
    "ipvlan": ("ipvlan", {"link": _LOWER}),
    "vlan": ("vlan", {"link": _LOWER, "vlan_id": 1}),
    "dummy": ("dummy", {}),
}
# Name -> kernel option, and what it cannot be made without.
_QDISCS: dict[str, tuple[str, dict[str, Any]]] = {
    "fq": ("CONFIG_NET_SCH_FQ", {}),
    "fq_codel": ("CONFIG_NET_SCH_FQ_CODEL", {}),
    "tbf": ("CONFIG_NET_SCH_TBF", {"rate": "100mbit", "latency": "10ms", "burst": 2**17}),
    "netem": ("CONFIG_NET_SCH_NETEM", {"delay": 1000}),
}
LINK_FINDERS: dict[str, Callable[[], Found]] = {
    name: partial(_link, name, *how) for name, how in _LINKS.items()
}
QDISC_FINDERS: dict[str, Callable[[], Found]] = {
    name: partial(_qdisc, name, *how) for name, how in _QDISCS.items()
}
