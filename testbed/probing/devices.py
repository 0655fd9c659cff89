"""Which link kinds and queueing disciplines the kernel makes, and how large their packets may be.

Each is made in a namespace of its own that nobody else sees and that goes with this process.
What is imported for it is little: a kernel is probed in a guest, where importing takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from testbed.capabilities import Found
from testbed.devices.tun import make_tap
from testbed.errors import MissingCapability
from testbed.netlink.channel import Channel
from testbed.netlink.message import Link, LinkEnd, list_links, new_link, set_link
from testbed.netlink.namespaces import entered, new_namespace
from testbed.netlink.qdisc import set_root
from testbed.netlink.request import Request

T = TypeVar("T")
_MTUS = (68, 2**31 - 1)
# Interface indexes, beyond those that a new namespace may use for tunnels of its own.
_LOWER, _TRIED = 1001, 1003


class _Refused(Exception):
    """The kernel's no, in its words."""


def _link(name: str, make: Callable[[Channel], object], *, above: bool = False) -> Found:
    """Whether `make` makes the device "tried", its largest MTU and its tso_max_size, both in bytes.

    above: it is made over the veth "lower".
    """

    def limits(channel: Channel) -> tuple[int, int]:
        if above:
            # An upper device takes no more than its lower one has.
            largest(partial(_takes_mtu, channel, "lower"), *_MTUS)
        make(channel)
        return largest(partial(_takes_mtu, channel, "tried"), *_MTUS), _tso_max_size(channel)

    try:
        max_mtu, tso_max_size = _tried(limits)
    except _Refused as refused:
        return {name: False}, f"{refused} (kernel option {_kernel_option(name)})"
    except MissingCapability as error:
        return {name: False}, str(error)
    return {name: True, f"{name}.max_mtu": max_mtu, f"{name}.tso_max_size": tso_max_size}, ""


def _qdisc(name: str, kernel_option: str, options: dict[str, int]) -> Found:
    try:
        _tried(lambda channel: _do(channel, set_root(_LOWER, name, options)))
    except _Refused as refused:
        return {name: False}, f"{refused} (kernel option {kernel_option})"
    except MissingCapability as error:
        return {name: False}, str(error)
    return {name: True}, ""


def largest(takes: Callable[[int], bool], low: int, high: int) -> int:
    """The largest value from `low` to `high` that is taken, by bisection; `low` is known to be."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if takes(middle) else (low, middle - 1)
    return low


def _tried(function: Callable[[Channel], T]) -> T:
    """What `function` gives in a fresh namespace with the veth "lower", of a netlink socket there."""
    namespace = new_namespace()
    try:
        with entered(namespace), closing(Channel(namespace)) as channel:
            _do(channel, _pair("veth", "lower", _LOWER))
            return function(channel)
    finally:
        os.close(namespace)


def _do(channel: Channel, request: Request) -> None:
    for refusal in channel.send([request]):
        raise _Refused(f"the kernel says '{refusal.text or os.strerror(refusal.errno)}'")


def _takes_mtu(channel: Channel, device: str, mtu: int) -> bool:
    return not channel.send([set_link(device, {"mtu": mtu})])


def _tso_max_size(channel: Channel) -> int:
    links = map(Link, channel.dump(list_links()))
    return next(int(link.get_attr("IFLA_TSO_MAX_SIZE", 0)) for link in links if link.name == "tried")


def _kernel_option(name: str) -> str:
    from testbed.devices.links import KINDS  # imports much, and is asked only where a kind is missing

    return KINDS[name].kernel_option


def _pair(kind: str, name: str, index: int) -> Request:
    return new_link(LinkEnd(name, index), kind, peer=LinkEnd(f"{name}-peer", index + 1))


def _single(kind: str, above: bool, data: dict[str, Any]) -> Request:
    return new_link(LinkEnd("tried", _TRIED, {"link": _LOWER} if above else {}), kind, data)


def _finder(name: str, request: Callable[[], Request], *, above: bool = False) -> Callable[[], Found]:
    return partial(_link, name, lambda channel: _do(channel, request()), above=above)


# What each kind cannot be made without.
_PAIRS = ("veth", "netkit")
_ALONE: dict[str, dict[str, Any]] = {
    "bridge": {},
    "vxlan": {"IFLA_VXLAN_ID": 1},
    "geneve": {"IFLA_GENEVE_ID": 1, "IFLA_GENEVE_REMOTE": "192.0.2.1"},
    "dummy": {},
}
_ABOVE: dict[str, dict[str, Any]] = {
    "macvlan": {"IFLA_MACVLAN_MODE": "bridge"},
    "ipvlan": {},
    "vlan": {"IFLA_VLAN_ID": 1},
}
# Name -> kernel option, and what it cannot be made without (ns, bytes, bytes a second).
_QDISCS: dict[str, tuple[str, dict[str, int]]] = {
    "fq": ("CONFIG_NET_SCH_FQ", {}),
    "fq_codel": ("CONFIG_NET_SCH_FQ_CODEL", {}),
    "tbf": ("CONFIG_NET_SCH_TBF", {"rate": 12_500_000, "limit": 2**18, "burst": 2**17}),
    "netem": ("CONFIG_NET_SCH_NETEM", {"delay": 1_000_000}),
}
LINK_FINDERS: dict[str, Callable[[], Found]] = {
    **{name: _finder(name, partial(_pair, name, "tried", _TRIED)) for name in _PAIRS},
    **{name: _finder(name, partial(_single, name, False, data)) for name, data in _ALONE.items()},
    "tap": partial(_link, "tap", lambda channel: make_tap("tried")),
    **{name: _finder(name, partial(_single, name, True, data), above=True) for name, data in _ABOVE.items()},
}
QDISC_FINDERS: dict[str, Callable[[], Found]] = {
    name: partial(_qdisc, name, *how) for name, how in _QDISCS.items()
}
