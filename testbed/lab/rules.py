"""Explain errors for which the kernel gives no text (EINVAL, EXFULL, EMLINK) by the rule that was broken."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Any

from testbed.devices.operations import AddAddress, AddRoute, CreateLink, Operation
from testbed.netlink.channel import Refusal
from testbed.topology.checks import IPV6_MIN_MTU

# BR_MAX_PORTS in net/bridge/br_private.h.
BRIDGE_PORTS = 1024
# MAX_NEST_DEV in include/linux/netdevice.h.
NESTED_DEVICES = 8

_SETTINGS: Mapping[tuple[str, int], str] = {
    ("master", errno.EXFULL): f"a bridge has at most {BRIDGE_PORTS} ports",
    ("master", errno.ELOOP): "a bridge cannot be a port, of itself or of another bridge",
    ("mac", errno.EADDRNOTAVAIL): "a device needs a unicast address that is not all zeros",
    ("gso_max_segs", errno.EINVAL): "a GSO packet has at most 65535 segments",
    **{
        (name, errno.ERANGE): "it must leave room for the headers (MAX_TCP_HEADER, 160 to 320 bytes)"
        for name in ("gso_max_size", "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size")
    },
    ("threaded", errno.EOPNOTSUPP): "only a device that is polled has it: a veth is with `gro: on`",
    ("rps_cpus", errno.EOVERFLOW): "this kernel has no such CPU",
    ("xps_cpus", errno.EOVERFLOW): "this kernel has no such CPU",
    ("xps_cpus", errno.ENOENT): "a device with one transmit queue has no XPS: give it num_tx_queues",
}


def rule_of_setting(name: str, number: int) -> str:
    """`; ` and the rule that a refused setting broke, or nothing where none is known."""
    return _worded(_SETTINGS.get((name, number)))


def rule_of_operation(operation: Operation | None, refusal: Refusal) -> str:
    """The same for another operation."""
    for kind, number, words in _OPERATIONS:
        if isinstance(operation, kind) and refusal.errno == number:
            return _worded(words(operation))
    return _worded(_ANYWHERE.get(refusal.errno))


def _address(operation: AddAddress) -> str | None:
    if operation.address.version == 6:
        return f"IPv6 needs an mtu of at least {IPV6_MIN_MTU} on the device"
    return None


def _route_exists(operation: AddRoute) -> str:
    return (
        "the node has this route: two of one network need different metrics, and the kernel makes one "
        "for the network of each address"
    )


def _gateway(operation: AddRoute) -> str:
    return f"no device of the node has an address in the network of the next hop {operation.via}"


def _nested(operation: CreateLink) -> str:
    return f"at most {NESTED_DEVICES} devices stand on top of each other"


def _exists(operation: CreateLink) -> str:
    return "the node has a device of that name, or one with the same identifier, already"


_OPERATIONS: tuple[tuple[type[Operation], int, Callable[[Any], str | None]], ...] = (
    (AddAddress, errno.EINVAL, _address),
    (AddRoute, errno.EEXIST, _route_exists),
    (AddRoute, errno.ENETUNREACH, _gateway),
    (AddRoute, errno.EHOSTUNREACH, _gateway),
    (AddRoute, errno.EINVAL, _gateway),
    (CreateLink, errno.EMLINK, _nested),
    (CreateLink, errno.EEXIST, _exists),
)
_ANYWHERE: Mapping[int, str] = {
    errno.ENOBUFS: "the kernel had no memory for it, or a table of it is full",
    errno.ENOMEM: "the kernel had no memory for it",
    errno.ENOSPC: "a table of the kernel is full",
}


def _worded(rule: str | None) -> str:
    return f"; {rule}" if rule else ""
