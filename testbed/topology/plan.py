"""Plan the operations that bring a topology up, in the order that the kernel needs. Pure.

The rules, each with its reason:

- lower before upper: a tunnel takes MTU and TSO limits over from its lower
  device when it is made, and a VLAN comes up only on a parent that is up;
- enslave before limits: an upper device's tso_max_size follows its ports, and
  joining or leaving resets what was set before;
- gso_max_size before gso_ipv4_max_size, gro likewise (`LINK_SETTINGS` has the
  order): a general size of 65536 or less resets the IPv4 one, so that a change
  of the general one comes with the IPv4 one (`Settings.changed_values`);
- features after limits, qdisc and addresses after features, up after addresses,
  so that a device never carries a packet half configured;
- threaded NAPI after up: a veth has something to poll only then, with gro on
  (and therefore off before gro);
- routes last, when their next hops are reachable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from testbed.devices.links import KINDS
from testbed.devices.links.kind import End, Link
from testbed.devices.operations import (
    AddAddress,
    AddNeighbour,
    AddRoute,
    CreateLink,
    DeleteQdisc,
    MakeNode,
    Operation,
    Reference,
    SetFeatures,
    SetLink,
    SetQdisc,
    SetSteering,
    SetSysctl,
    SetThreaded,
    SetUp,
)
from testbed.devices.settings import AT_CREATION, Settings
from testbed.errors import InputError
from testbed.topology.checks import check
from testbed.topology.spec import Placed, Topology, below
from testbed.topology.sysctls import device_of
from testbed.yamlfile import Key


def plan(topology: Topology) -> list[Operation]:
    """The operations for `topology`, in the order in which they must be done.

    InputError for a topology that does not fit together.
    """
    check(topology)
    placed = topology.placed()
    operations: list[Operation] = [MakeNode(node) for node in topology.nodes]
    operations += _sysctls(topology, of_devices=False)
    for level in _levels(topology, placed):
        operations += _made(topology, placed, level)
    operations += _sysctls(topology, of_devices=True)
    for end in lower_first(topology, placed):
        operations += _finished(end, placed[end].config)
    return [*operations, *_neighbours(topology), *_routes(topology)]


def plan_change(topology: Topology, changes: Mapping[End, Settings]) -> list[Operation]:
    """The operations that set `changes` on devices that are there already, in their order.

    `topology` is what the lab is to be, with the changes. Addresses are not among
    them: those that go and those that come depend on what is held. InputError for
    what is fixed when a device is made.
    """
    placed = topology.placed()
    operations: list[Operation] = []
    for end in lower_first(topology, placed):
        change = changes.get(end)
        if change is None:
            continue
        for name in AT_CREATION:
            if getattr(change, name) is not None:
                raise InputError(f"{end}: {name} is fixed when the device is made: state it in the topology")
        operations += [
            *_limits(end, placed[end].config.changed_values(change)),
            *(_threaded(end, change) if change.threaded is False else ()),
            *_features(end, change),
            # The kernel changes a qdisc of the same kind, and keeps what is not given, instead of making one.
            *([DeleteQdisc(*end)] if change.qdisc is not None else ()),
            *_traffic(end, change),
            *(_threaded(end, change) if change.threaded else ()),
        ]
    return operations


def plan_nodes(topology: Topology, keys: Mapping[str, Collection[Key]]) -> list[Operation]:
    """The operations that make, in nodes that are up, the sysctls, neighbours and routes at `keys`.

    `keys`: node -> ("sysctls", name), ("neighbours", index) or ("routes", index).
    """
    sysctls = [*_sysctls(topology, of_devices=False), *_sysctls(topology, of_devices=True)]
    everything: list[tuple[Key, Operation]] = [
        *((("sysctls", operation.name), operation) for operation in sysctls),
        *((("neighbours", operation.index), operation) for operation in _neighbours(topology)),
        *((("routes", route.index), replace(route, replace=True)) for route in _routes(topology)),
    ]
    return [operation for key, operation in everything if key in keys.get(operation.node, ())]


def lower_first(topology: Topology, placed: Mapping[End, Placed]) -> list[End]:
    """The devices, each behind those below it."""
    return [end for level in _levels(topology, placed) for end in level]


def _levels(topology: Topology, placed: Mapping[End, Placed]) -> list[list[End]]:
    """The devices by the number of devices below them. A pair is made at the level of its higher end."""
    depth: dict[End, int] = {}

    def of(end: End) -> int:
        if end not in depth:
            depth[end] = 1 + max((of(lower) for lower in below(topology, end)), default=-1)
        return depth[end]

    levels: dict[int, list[End]] = {}
    for end in placed:
        levels.setdefault(of(placed[end].stated_by), []).append(end)
    return [levels[level] for level in sorted(levels)]


def _made(topology: Topology, placed: Mapping[End, Placed], level: Iterable[End]) -> list[Operation]:
    """Create the devices of one level, then give them their ports, then their limits."""
    created: list[Operation] = []
    enslaved: list[Operation] = []
    limited: list[Operation] = []
    carried: dict[End, Mapping[str, Any]] = {}
    for end in level:
        device = placed[end]
        if device.stated_by == end:
            operations = KINDS[device.kind].create(_link(device, placed))
            created += operations
            carried |= _carried(operations)
            ports = KINDS[device.kind].ports(device.config)
            enslaved += [SetLink(end.node, port, {"master": Reference(end.device)}) for port in ports]
    for end in level:
        rest = {k: v for k, v in placed[end].config.link_values().items() if k not in carried.get(end, {})}
        limited += _limits(end, rest)
    return created + enslaved + limited


def _link(device: Placed, placed: Mapping[End, Placed]) -> Link:
    peer = KINDS[device.kind].peer(device.config)
    peer_settings = placed[peer].config if peer else Settings()
    return Link(device.end.node, device.end.device, device.config, peer, peer_settings)


def _carried(operations: Iterable[Operation]) -> dict[End, Mapping[str, Any]]:
    """The settings that creation itself gives, by device."""
    carried: dict[End, Mapping[str, Any]] = {}
    for operation in operations:
        if isinstance(operation, CreateLink):
            carried[End(operation.node, operation.device)] = operation.values
            if operation.peer:
                carried[End(operation.peer.node, operation.peer.device)] = operation.peer.values
    return carried


def _limits(end: End, values: Mapping[str, int | str]) -> list[Operation]:
    return [SetLink(end.node, end.device, values)] if values else []


def _features(end: End, settings: Settings) -> list[Operation]:
    return [SetFeatures(end.node, end.device, settings.features)] if settings.features else []


def _traffic(end: End, settings: Settings) -> list[Operation]:
    """The root qdisc, and the CPUs of the queues."""
    operations: list[Operation] = []
    if settings.qdisc is not None:
        operations.append(SetQdisc(*end, settings.qdisc.kind, settings.qdisc.options()))
    if settings.rps_cpus is not None:
        operations.append(SetSteering(*end, "rx", settings.rps_cpus))
    if settings.xps_cpus is not None:
        operations.append(SetSteering(*end, "tx", settings.xps_cpus))
    return operations


def _threaded(end: End, settings: Settings) -> list[Operation]:
    return [] if settings.threaded is None else [SetThreaded(*end, settings.threaded)]


def _finished(end: End, settings: Settings) -> list[Operation]:
    addresses = [AddAddress(*end, address) for address in settings.addresses]
    return [
        *_features(end, settings),
        *_traffic(end, settings),
        *addresses,
        SetUp(*end),
        *_threaded(end, settings),
    ]


def _sysctls(topology: Topology, *, of_devices: bool) -> list[SetSysctl]:
    """Sysctls before the devices, which take their defaults over; those of one device after it is made."""
    devices = topology.devices()
    return [
        SetSysctl(node, name, str(value))
        for node, spec in topology.nodes.items()
        for name, value in spec.sysctls.items()
        if of_devices == (device_of(name) in devices[node])
    ]


def _neighbours(topology: Topology) -> list[AddNeighbour]:
    return [
        AddNeighbour(node, neighbour.dev, index, neighbour.to, neighbour.lladdr)
        for node, spec in topology.nodes.items()
        for index, neighbour in enumerate(spec.neighbours)
    ]


def _routes(topology: Topology) -> list[AddRoute]:
    return [
        AddRoute(
            node,
            index,
            route.family,
            None if route.to == "default" else route.to,
            route.via,
            route.dev,
            route.metric,
            route.metrics(),
        )
        for node, spec in topology.nodes.items()
        for index, route in enumerate(spec.routes)
    ]
