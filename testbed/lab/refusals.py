"""Turn netlink errors into messages for users: where, what, which limit, and the kernel's own text."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from testbed.devices.links import KINDS
from testbed.devices.links.kind import End
from testbed.devices.operations import CreateLink, Operation, Reference, SetQdisc
from testbed.devices.qdisc import KERNEL_OPTIONS
from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.lab.rules import rule_of_operation, rule_of_setting
from testbed.netlink.channel import Refusal
from testbed.netlink.message import Link
from testbed.topology.spec import Topology

GSO_MAX_SIZE = 8 * 65535  # include/linux/netdevice.h


def explain(
    topology: Topology,
    end: End,
    requested: Mapping[str, Any],
    refusal: Refusal,
    operation: Operation | None,
    link: Link | None = None,
) -> TestbedError:
    """The error for a refused operation on `end`; `requested` is the setting at fault where it is known."""
    for name, value in requested.items():
        if isinstance(value, Reference):  # the device that it is to be a port of
            upper = End(end.node, value.device)
            where = topology.where(upper, "ports")
            rule = rule_of_setting(name, refusal.errno)
            return InputError(f"{where}: port {end.device} was refused ({refusal}){rule}")
        where = topology.where(end, name, value)
        return _setting_error(topology, end, where, name, value, refusal, link)
    where = topology.where(end)
    if isinstance(operation, CreateLink) and refusal.errno == errno.EOPNOTSUPP:
        option = KINDS[operation.kind].kernel_option
        return MissingCapability(
            f"{where}: this kernel cannot make a {operation.kind} link: it needs {option} ({refusal})"
        )
    if isinstance(operation, SetQdisc) and refusal.errno == errno.ENOENT:
        where = topology.where(end, "qdisc")
        option = KERNEL_OPTIONS[operation.kind]
        return MissingCapability(
            f"{where}: this kernel has no qdisc {operation.kind}: it needs {option} ({refusal})"
        )
    if refusal.errno == errno.EPERM:
        return MissingCapability(f"{where}: not permitted; run as root ({refusal})")
    what = str(operation or "change").removeprefix(f"{end.node}: ")
    rule = rule_of_operation(operation, refusal)
    return InputError(f"{where}: {what} was refused ({refusal}){rule}")


def _setting_error(
    topology: Topology, end: End, where: str, name: str, value: Any, refusal: Refusal, link: Link | None
) -> TestbedError:
    largest_mtu = link.get_attr("IFLA_MAX_MTU") if link else None
    largest_tso = link.get_attr("IFLA_TSO_MAX_SIZE") if link else None
    if name == "mtu" and largest_mtu and value > largest_mtu:
        kind = topology.placed()[end].kind
        return MissingCapability(
            f"{where}: mtu {value} is above what this kernel's {kind} accepts, {largest_mtu} ({refusal}); "
            "ask for less, or run a kernel that allows it"
        )
    if name.endswith("max_size") and largest_tso and value > largest_tso:
        # Up to GSO_MAX_SIZE it is this device on this kernel that says no; above it every one does.
        error = MissingCapability if value <= GSO_MAX_SIZE else InputError
        return error(f"{where}: {name} {value} is above the device's tso_max_size {largest_tso} ({refusal})")
    smallest_mtu = link.get_attr("IFLA_MIN_MTU") if link else None
    if name == "mtu" and smallest_mtu and value < smallest_mtu:
        kind = topology.placed()[end].kind
        return InputError(f"{where}: mtu {value} is below what a {kind} accepts, {smallest_mtu} ({refusal})")
    rule = _most_mtu(topology, end) if name == "mtu" else rule_of_setting(name, refusal.errno)
    return InputError(f"{where}: {name} {value} was refused ({refusal}){rule}")


def _most_mtu(topology: Topology, end: End) -> str:
    """What bounds the MTU of a device on top of another: the kernel does not say."""
    placed = topology.placed()[end]
    config, kind = placed.config, KINDS[placed.kind]
    if placed.stated_by != end or not kind.lowers(config):
        return ""
    tunnel = kind.tunnel(config)
    less = f" less {tunnel.overhead}" if tunnel else ""
    lowers = " and ".join(str(End(end.node, name)) for name in kind.lowers(config))
    return f"; it can have at most the mtu of {lowers}{less}"
