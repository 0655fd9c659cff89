"""Carry out the operations of a plan: netlink requests in batches, one queue per node."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from testbed.devices import features as offloads
from testbed.devices.links.kind import End
from testbed.devices.operations import (
    AddAddress,
    AddForwarding,
    AddNeighbour,
    AddRoute,
    Call,
    CreateLink,
    DeleteAddress,
    DeleteQdisc,
    DeviceOperation,
    MakeNode,
    Operation,
    Pump,
    Reference,
    SetFeatures,
    SetLink,
    SetQdisc,
    SetSteering,
    SetSysctl,
    SetThreaded,
    SetUp,
    TakeDevice,
)
from testbed.devices.tun import attach_tap
from testbed.errors import InputError, TestbedError
from testbed.lab.refusals import explain
from testbed.lab.rules import rule_of_operation, rule_of_setting
from testbed.netlink import message, qdisc_messages, routing
from testbed.netlink.channel import Refusal
from testbed.netlink.request import Request
from testbed.nodes import pump
from testbed.nodes.namespace import NamespaceNode
from testbed.nodes.sysctl_files import write_sysctl
from testbed.topology.spec import Topology

PUMP_START_S = 10.0


class Execution:
    """Does operations in their order.

    Messages wait in their node's queue until something needs their effect, so
    that a node takes few sends. A device made from another node (the peer of a
    pair) is such an effect: before anything that may need it is queued in its
    own node, the maker's queue goes out. So what a queue holds never waits for
    another queue, and pairs may join nodes in a ring.
    """

    def __init__(
        self, topology: Topology, nodes: dict[str, NamespaceNode], make: Callable[[str], NamespaceNode]
    ) -> None:
        """`nodes` are those that exist; MakeNode adds to them what `make` returns."""
        self._topology = topology
        self._nodes = nodes
        self._make = make
        self._queues: dict[str, list[tuple[Operation, Request]]] = {name: [] for name in nodes}
        self._makers: dict[str, set[str]] = {}
        self._indexes: dict[str, dict[str, int]] = {}
        self._pumps: dict[End, int] = {}  # the TAP -> the descriptor on which its pump says that it runs

    def do(self, operations: Iterable[Operation]) -> None:
        """Carry out all operations, in order; the first that is refused raises the user's error."""
        try:
            for operation in operations:
                self._do(operation)
            for node in list(self._queues):
                self._flush(node)
            self._wait_for_pumps()
        finally:
            while self._pumps:
                os.close(self._pumps.popitem()[1])

    def know(self, node: str, indexes: Mapping[str, int]) -> None:
        """Devices that `node` has already, by name."""
        self._indexes[node] = dict(indexes)

    def _do(self, operation: Operation) -> None:
        match operation:
            case MakeNode(node):
                self._nodes[node] = self._make(node)
                self._queues[node] = []
                self._indexes[node] = {"lo": 1}
                self._queue(operation, message.set_link("lo", {}, up=True))
            case CreateLink(node):
                self._queue(operation, self._create(operation))
                if operation.peer and operation.peer.node != node:
                    self._makers.setdefault(operation.peer.node, set()).add(node)
            case SetLink(node, device, values):
                self._queue(operation, message.set_link(device, self._resolved(node, values)))
            case SetUp(_, device):
                self._queue(operation, message.set_link(device, {}, up=True))
            case AddAddress(node, device, address):
                self._queue(operation, message.add_address(self._index(node, device), address))
            case DeleteAddress(node, device, address):
                self._queue(operation, message.delete_address(self._index(node, device), address))
            case AddForwarding(node, device, mac, destination):
                index = self._index(node, device)
                self._queue(operation, routing.add_forwarding(index, mac, destination))
            case AddRoute():
                self._queue(operation, self._route(operation))
            case AddNeighbour(node, device, _, address, lladdr):
                self._queue(operation, routing.add_neighbour(self._index(node, device), address, lladdr))
            case SetQdisc(node, device, kind, options):
                self._queue(operation, qdisc_messages.set_root(self._index(node, device), kind, options))
            case DeleteQdisc(node, device):
                self._flush(node)
                self._delete_qdisc(operation, self._index(node, device))
            case SetSteering(node, device, queue, cpus):
                self._flush(node)
                with self._sysfs_told(operation):
                    self._nodes[node].sysfs.set_cpus(device, queue, cpus)
            case SetThreaded(node, device, on):
                self._flush(node)
                with self._sysfs_told(operation):
                    self._nodes[node].sysfs.set_threaded(device, on)
            case SetFeatures(node, device, features):
                self._flush(node)
                set_features(self._topology, self._nodes[node], End(node, device), features)
            case SetSysctl(node, name, value):
                self._flush(node)
                self._sysctl(node, name, value)
            case Call(node, device, function, arguments):
                self._flush(node)
                with self._error_at(End(node, device)):
                    self._indexes[node][device] = self._nodes[node].call(function, *arguments)
            case Pump():
                self._pump(operation)
            case TakeDevice(node, device):
                self._take(node, device)
            case _:
                raise AssertionError(f"no way to do {operation!r}")

    def _queue(self, operation: Operation, request: Request) -> None:
        if not (isinstance(operation, CreateLink) and operation.peer):
            self._settle(operation.node)
        self._queues[operation.node].append((operation, request))

    def _settle(self, node: str) -> None:
        """Have the devices of `node` that are made from other nodes be there."""
        for maker in self._makers.pop(node, ()):
            self._send(maker)

    def _flush(self, node: str) -> None:
        self._settle(node)
        self._send(node)

    def _send(self, node: str) -> None:
        queue = self._queues[node]
        if not queue:
            return
        self._queues[node] = []
        refusals = self._nodes[node].channel.send([request for _, request in queue])
        if refusals:
            raise self._error(queue[refusals[0].position][0], refusals[0])

    def _create(self, operation: CreateLink) -> Request:
        node, peer = operation.node, operation.peer
        values = dict(operation.values)
        if operation.link:
            values["link"] = self._index(node, operation.link.device)
        index = self._new_index(node, operation.device)
        data = {name: self._resolve(node, value) for name, value in operation.info.items()}
        other = None
        if peer:
            namespace = self._nodes[peer.node].namespace if peer.node != node else None
            peer_index = self._new_index(peer.node, peer.device, other=index)
            other = message.LinkEnd(peer.device, peer_index, peer.values, namespace)
        return message.new_link(message.LinkEnd(operation.device, index, values), operation.kind, data, other)

    def _pump(self, operation: Pump) -> None:
        """Open both TAPs, each in its node, and hand them to a pump in the far one."""
        ends = End(operation.node, operation.device), End(operation.far_node, operation.far_device)
        far = self._topology.nodes[operation.far_node]
        with ExitStack() as descriptors:
            opened = []
            for end in ends:
                with self._error_at(end):
                    descriptor = self._nodes[end.node].call(attach_tap, end.device)
                descriptors.callback(os.close, descriptor)
                opened.append(descriptor)
            cpus = far.pump.cpus if far.pump else None
            one, other = opened
            node = self._nodes[operation.far_node]
            reading, writing = os.pipe()
            descriptors.callback(os.close, writing)
            self._pumps[ends[0]] = reading
            role = f"pump {ends[0]}"
            node.start(pump.command(), role=role, cpus=cpus, stdin=one, stdout=other, stderr=writing)

    def _wait_for_pumps(self) -> None:
        """Frames that wait in a TAP are counted when they are read: evidence needs that to be over."""
        deadline = time.monotonic() + PUMP_START_S
        for end, reading in self._pumps.items():
            readable, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
            output = os.read(reading, 4096) if readable else b""
            if output != pump.READY:
                lines = output.decode(errors="replace").strip().splitlines()
                raise TestbedError(f"{end}: its pump did not start" + (f": {lines[-1]}" if lines else ""))

    def _take(self, node: str, device: str) -> None:
        with self._error_at(End(node, device)):
            self._indexes[node][device] = self._nodes[node].take(device)

    @contextmanager
    def _error_at(self, end: End) -> Iterator[None]:
        """An error within is about `end`: its message gets the place in front."""
        try:
            yield
        except TestbedError as error:
            raise type(error)(f"{self._topology.where(end)}: {error}") from None

    @contextmanager
    def _sysfs_told(self, operation: DeviceOperation) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = self._topology.where(End(operation.node, operation.device))
            reason = os.strerror(error.errno or 0)
            what = str(operation).removeprefix(f"{operation.node}: ")
            name = "threaded" if isinstance(operation, SetThreaded) else what.split()[1]
            rule = rule_of_setting(name, error.errno or 0)
            raise InputError(f"{where}: {what} was refused (kernel: {reason}){rule}") from None

    def _new_index(self, node: str, device: str, other: int = 0) -> int:
        """A free interface index that is not `other`, the peer's.

        A device whose index is its peer's looks to the kernel like one without a
        peer, and its change of carrier waits for up to a second instead of being
        handled at once (linkwatch_urgent_event in net/core/link_watch.c).
        """
        indexes = self._indexes[node]
        index = max(indexes.values()) + 1
        indexes[device] = index + 1 if index == other else index
        return indexes[device]

    def _index(self, node: str, device: str) -> int:
        return self._indexes[node][device]

    def _resolve(self, node: str, value: Any) -> Any:
        return self._index(node, value.device) if isinstance(value, Reference) else value

    def _resolved(self, node: str, values: Mapping[str, Any]) -> dict[str, int | str]:
        return {name: self._resolve(node, value) for name, value in values.items()}

    def _route(self, operation: AddRoute) -> Request:
        return routing.add_route(
            operation.family,
            operation.to,
            via=operation.via,
            ifindex=self._index(operation.node, operation.dev) if operation.dev else None,
            metric=operation.metric,
            metrics=operation.metrics,
            replace=operation.replace,
        )

    def _delete_qdisc(self, operation: DeleteQdisc, index: int) -> None:
        for refusal in self._nodes[operation.node].channel.send([qdisc_messages.delete_root(index)]):
            if refusal.errno != errno.ENOENT:  # it has the kernel's default
                raise self._error(operation, refusal)

    def _sysctl(self, node: str, name: str, value: str) -> None:
        try:
            self._nodes[node].call(write_sysctl, name, value)
        except InputError as error:
            raise self._topology.at(("nodes", node, "sysctls", name), f"{node}: {error}") from None

    def _error(self, operation: Operation, refusal: Refusal) -> Exception:
        """What to tell the user. A message that carried settings is taken apart to find the one refused."""
        if isinstance(operation, CreateLink) and _carries_settings(operation):
            return self._creation_error(operation, refusal)
        if isinstance(operation, SetLink):
            end = End(operation.node, operation.device)
            error = self._first_refused(end, operation.values)
            return error or explain(self._topology, end, {}, refusal, None)
        if isinstance(operation, DeviceOperation):
            end = End(operation.node, operation.device)
            return explain(self._topology, end, {}, refusal, operation)
        if isinstance(operation, AddRoute):
            key = ("nodes", operation.node, "routes", operation.index)
            rule = rule_of_operation(operation, refusal)
            return self._topology.at(key, f"{operation} was refused ({refusal}){rule}")
        return TestbedError(f"{operation}: refused ({refusal})")

    def _creation_error(self, operation: CreateLink, refusal: Refusal) -> Exception:
        """Make the link without its settings, then give them one by one."""
        end = End(operation.node, operation.device)
        peer = operation.peer and replace(operation.peer, values={})
        bare = replace(operation, values={}, peer=peer)
        refusals = self._nodes[operation.node].channel.send([self._create(bare)])
        if refusals:
            return explain(self._topology, end, {}, refusals[0], bare)
        error = self._first_refused(end, operation.values)
        if error is None and operation.peer:
            other = End(operation.peer.node, operation.peer.device)
            error = self._first_refused(other, operation.peer.values)
        return error or explain(self._topology, end, {}, refusal, operation)

    def _first_refused(self, end: End, values: Mapping[str, Any]) -> Exception | None:
        channel = self._nodes[end.node].channel
        for name, value in values.items():
            resolved = self._resolved(end.node, {name: value})
            refusals = channel.send([message.set_link(end.device, resolved)])
            if refusals:
                link = _link(self._nodes[end.node], end.device)
                return explain(self._topology, end, {name: value}, refusals[0], None, link)
        return None


def set_features(topology: Topology, node: NamespaceNode, end: End, features: Mapping[str, bool]) -> None:
    """Ask for `features` of a device, by ethtool's names or the kernel's; what came of it is read back."""
    node.features.set(end.device, offloads.to_set(features, node.features.get(end.device)))


def _carries_settings(operation: CreateLink) -> bool:
    return bool(operation.values or (operation.peer and operation.peer.values))


def _link(node: NamespaceNode, device: str) -> message.Link | None:
    links = map(message.Link, node.channel.dump(message.list_links()))
    return next((link for link in links if link.name == device), None)
