"""Probe link kinds and queueing disciplines, and the largest sizes that they take.

Each is made in a namespace of its own that nobody else sees and that goes with this process.
What is imported for it is little: a kernel is probed in a guest, where importing takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from testbed.capabilities import Found
from testbed.devices.links import KINDS, MADE
from testbed.errors import MissingCapability
from testbed.netlink.channel import Channel
from testbed.netlink.message import Link, LinkEnd, list_links, new_link, set_link
from testbed.netlink.namespaces import entered, new_namespace
from testbed.netlink.qdisc_messages import set_root
from testbed.netlink.request import Request

if TYPE_CHECKING:
    from testbed.devices.links.kind import Probe

T = TypeVar("T")
_MTUS = (68, 2**31 - 1)
# Interface indexes, beyond those that a new namespace may use for tunnels of its own.
_LOWER, _TRIED = 1001, 1003


class _Refused(Exception):
    """The kernel's refusal, with its text."""


def _link(name: str) -> Found:
    """Whether the kernel makes a device of this kind, its largest MTU and its tso_max_size, both in bytes."""
    kind = KINDS[name]
    assert kind.probe is not None, name
    make, above = _maker(name, kind.probe), kind.probe.above

    def limits(channel: Channel) -> tuple[int, int]:
        if above:
            # An upper device takes no more than its lower one has.
            largest(partial(_takes_mtu, channel, "lower"), *_MTUS)
        make(channel)
        return largest(partial(_takes_mtu, channel, "tried"), *_MTUS), _tso_max_size(channel)

    try:
        max_mtu, tso_max_size = _tried(limits)
    except _Refused as refused:
        return {name: False}, f"{refused} (kernel option {kind.kernel_option})"
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


def _maker(kind: str, probe: Probe) -> Callable[[Channel], object]:
    """Makes the device "tried", above the veth "lower" where the kind stands on another device."""
    if probe.make is not None:
        make = probe.make
        return lambda channel: make("tried")
    if probe.pair:
        return lambda channel: _do(channel, _pair(kind, "tried", _TRIED))
    end = LinkEnd("tried", _TRIED, {"link": _LOWER} if probe.above else {})
    return lambda channel: _do(channel, new_link(end, kind, dict(probe.info)))


def _pair(kind: str, name: str, index: int) -> Request:
    return new_link(LinkEnd(name, index), kind, peer=LinkEnd(f"{name}-peer", index + 1))


# Name -> kernel option, and what it cannot be made without (ns, bytes, bytes a second).
_QDISCS: dict[str, tuple[str, dict[str, int]]] = {
    "fq": ("CONFIG_NET_SCH_FQ", {}),
    "fq_codel": ("CONFIG_NET_SCH_FQ_CODEL", {}),
    "tbf": ("CONFIG_NET_SCH_TBF", {"rate": 12_500_000, "limit": 2**18, "burst": 2**17}),
    "netem": ("CONFIG_NET_SCH_NETEM", {"delay": 1_000_000}),
}
LINK_FINDERS: dict[str, Callable[[], Found]] = {name: partial(_link, name) for name in MADE}
QDISC_FINDERS: dict[str, Callable[[], Found]] = {
    name: partial(_qdisc, name, *how) for name, how in _QDISCS.items()
}
