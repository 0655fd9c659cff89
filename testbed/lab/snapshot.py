"""Snapshots of a lab: what changed between two of them, and operations that restore the earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.devices.links.kind import End
from testbed.devices.operations import (
    AddAddress,
    DeleteAddress,
    DeleteQdisc,
    Operation,
    SetFeatures,
    SetLink,
    SetQdisc,
    SetSteering,
    SetSysctl,
    SetThreaded,
    SetUp,
)
from testbed.devices.qdisc import KERNEL_OPTIONS
from testbed.devices.settings import COUPLED, LINK_SETTINGS
from testbed.lab.read_back import ActualDevice
from testbed.netlink.message import Address
from testbed.topology.plan import lower_first, plan_nodes
from testbed.topology.spec import Topology
from testbed.yamlfile import Key


@dataclass(frozen=True)
class Snapshot:
    """The devices of a lab, the sysctls that are about to change, and what its nodes lack.

    `lacking`: node -> where its spec states a sysctl, route or neighbour that the
    kernel holds otherwise -> how.
    """

    devices: Mapping[End, ActualDevice]
    sysctls: Mapping[tuple[str, str], str]
    lacking: Mapping[str, Mapping[Key, str]]


@dataclass(frozen=True)
class Moved:
    """A changed setting. For a feature, `setting` is the kernel's name of it."""

    end: End
    setting: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.end}: {self.setting} went from {_word(self.before)} to {_word(self.after)}"


def moved(before: Snapshot, after: Snapshot) -> Iterator[Moved]:
    """Every changed setting of a device, with addresses and `up`, without features."""
    for end, was in before.devices.items():
        now = after.devices[end]
        for name in (*LINK_SETTINGS, "qdisc"):
            if was.values.get(name) != now.values.get(name):
                yield Moved(end, name, was.values.get(name), now.values.get(name))
        for name in was.tuned.keys() & now.tuned.keys():
            if was.tuned[name] != now.tuned[name] and name != "qdisc":
                yield Moved(end, name, was.tuned[name], now.tuned[name])
        if was.up != now.up:
            yield Moved(end, "up", was.up, now.up)
        if given(was) != given(now):
            yield Moved(end, "addresses", _words(given(was)), _words(given(now)))


def moved_features(before: Snapshot, after: Snapshot) -> Iterator[Moved]:
    """The features that are active now and were not, or the other way round."""
    for end, was in before.devices.items():
        now = after.devices[end].features
        for name, feature in was.features.items():
            if name in now and feature.active != now[name].active:
                yield Moved(end, name, feature.active, now[name].active)


def given(actual: ActualDevice) -> set[Address]:
    """The addresses of a device without the link-local ones, which the kernel makes by itself."""
    return {address for address in actual.addresses if not address.is_link_local}


def way_back(topology: Topology, before: Snapshot, now: Snapshot) -> list[Operation]:
    """The operations that restore a lab of `topology` from `now` to `before`."""
    operations: list[Operation] = []
    for end in lower_first(topology, topology.placed()):
        operations += _device_back(end, before.devices[end], now.devices[end])
    operations += [
        SetSysctl(node, name, value)
        for (node, name), value in before.sysctls.items()
        if now.sysctls.get((node, name)) != value
    ]
    lost = {node: lacking.keys() - before.lacking[node].keys() for node, lacking in now.lacking.items()}
    return operations + plan_nodes(topology, lost)


def _device_back(end: End, was: ActualDevice, now: ActualDevice) -> Iterator[Operation]:
    yield from (DeleteAddress(*end, address) for address in given(now) - given(was))
    different = {name for name in LINK_SETTINGS if was.values.get(name) != now.values.get(name)}
    different |= {ipv4 for general, ipv4 in COUPLED.items() if general in different}
    values = {
        name: value
        for name in LINK_SETTINGS
        if name in different and (value := was.values.get(name)) is not None
    }
    if values:
        yield SetLink(*end, values)
    threaded = was.tuned.get("threaded")
    if threaded is False and now.tuned["threaded"]:  # refused once GRO is off
        yield SetThreaded(*end, False)
    features = {
        name: feature.requested
        for name, feature in was.features.items()
        if not feature.fixed and name in now.features and feature.requested != now.features[name].requested
    }
    if features:
        yield SetFeatures(*end, features)
    yield from _traffic_back(end, was, now)
    yield from (AddAddress(*end, address) for address in given(was) - given(now))
    if was.up and not now.up:
        yield SetUp(*end)
    if threaded is True and not now.tuned["threaded"]:
        yield SetThreaded(*end, True)


def _traffic_back(end: End, was: ActualDevice, now: ActualDevice) -> Iterator[Operation]:
    kind, root = str(was.values["qdisc"]), was.tuned.get("qdisc")
    if kind != now.values["qdisc"] or root != now.tuned.get("qdisc"):
        yield DeleteQdisc(*end)
        if kind in KERNEL_OPTIONS:  # others are the kernel's own default: pfifo_fast, mq
            yield SetQdisc(*end, kind, root.options if root else {})
    for name, queue in (("rps_cpus", "rx"), ("xps_cpus", "tx")):
        queues = was.tuned.get(name)
        if queues and queues != now.tuned[name] and all(cpus == queues[0] for cpus in queues):
            yield SetSteering(*end, "rx" if queue == "rx" else "tx", tuple(sorted(queues[0])))


def _words(addresses: set[Address]) -> str:
    return " ".join(sorted(map(str, addresses))) or "none"


def _word(value: Any) -> Any:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value
