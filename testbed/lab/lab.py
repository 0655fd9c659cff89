"""A lab: a topology that is up, applied and read back."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from testbed.devices.links.kind import End
from testbed.devices.operations import Operation, Pump
from testbed.devices.settings import Settings
from testbed.errors import InputError, TestbedError
from testbed.lab.apply import Execution
from testbed.lab.baseline import Baseline, Baselines, baselines, renewed
from testbed.lab.known_features import check_features
from testbed.lab.mending import Drift, find_drift, has_carrier, plan_mending
from testbed.lab.read_back import ActualDevice, differences, read_counters, read_devices
from testbed.lab.read_back_node import node_differences
from testbed.lab.settings_table import Row, compare, node_rows
from testbed.lab.snapshot import Moved, Snapshot
from testbed.lab.transaction import PASSES, Transaction, setting_error
from testbed.nodes.namespace import NamespaceNode
from testbed.nodes.node import Node
from testbed.nodes.sysctl_files import read_sysctl
from testbed.records.round import Counters
from testbed.slowness import scaled
from testbed.topology.checks import check
from testbed.topology.loading import load_topology
from testbed.topology.plan import plan
from testbed.topology.spec import Placed, Topology
from testbed.yamlfile import did_you_mean, validate_value

READY_TIMEOUT_S = scaled(5.0)


@dataclass(frozen=True)
class LabDevice:
    """A device of a lab, as the kernel knows it."""

    node: str
    name: str
    kind: str
    ifindex: int

    @property
    def reference(self) -> str:
        """`node:device`, as files, commands and records write it."""
        return f"{self.node}:{self.name}"


def open_lab(topology: Topology | str) -> Lab:
    """Bring `topology` (or the file of that name or path) up, ready to carry traffic.

    Its namespaces have no names: they live as long as the lab is open and this
    process lives, SIGKILL included. Every setting is read back; one that the
    kernel refuses or holds otherwise is an error, and then nothing is left.
    InputError, MissingCapability (not root, a limit or kind of this kernel), TestbedError.
    """
    if isinstance(topology, str):
        topology = load_topology(topology)
    return build(topology, plan(topology))


def build(
    topology: Topology,
    operations: Iterable[Operation],
    make: Callable[[str], NamespaceNode] = NamespaceNode.make,
) -> Lab:
    """A lab from `operations`, its nodes from `make`; closed again when one of them fails."""
    check_features(topology)
    _allow_descriptors(3 * len(topology.nodes) + 256)
    nodes: dict[str, NamespaceNode] = {}
    lab = Lab(topology, nodes)
    try:
        Execution(topology, nodes, make).do(operations)
        lab.wait_ready()
    except BaseException:
        lab.close()
        raise
    return lab


class Lab:
    """Nodes with their devices, applied and read back. A context manager: leaving it takes all of it away."""

    name: str | None
    nodes: dict[str, Node]

    def __init__(
        self,
        topology: Topology,
        nodes: dict[str, NamespaceNode],
        name: str | None = None,
        built: Baselines | None = None,
    ) -> None:
        """`built`: the actual settings of each device when the lab was built, where they are known."""
        self.name = name
        self.built = dict(built or {})
        self.topology = topology
        self._namespaces = nodes
        self.nodes = nodes  # type: ignore[assignment]  # dict is invariant, and the lab alone adds to it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def devices(self) -> list[LabDevice]:
        """Every device that the topology declares, in the file's order."""
        actual = {node: read_devices(namespace) for node, namespace in self._namespaces.items()}
        return [
            LabDevice(end.node, end.device, placed.kind, actual[end.node][end.device].ifindex)
            for end, placed in self.topology.placed().items()
        ]

    def set(self, settings: Mapping[str, Settings | Mapping[str, Any]]) -> list[Moved]:
        """Change live devices (`node:device`, * in either -> Settings) in the right order, and read back.

        As `change` without sysctls.
        """
        return self.change(settings, {})

    def change(
        self,
        settings: Mapping[str, Settings | Mapping[str, Any]],
        sysctls: Mapping[str, Mapping[str, int | str]],
    ) -> list[Moved]:
        """Change devices and sysctls (node -> name -> value): all of it, or nothing.

        The features that changed with it elsewhere, by the kernel's rules. InputError for a device that does
        not exist, a value that the kernel refuses, one that reads back different, or anything that the change
        moves without being requested; MissingCapability for a limit of this kernel. Everything is then as it
        was, or the error says what is not.
        """
        changes = {pattern: settings_of(pattern, given) for pattern, given in settings.items()}
        after = self.topology.with_settings(changes).with_sysctls(sysctls)
        check(after)
        check_features(after)
        touched: dict[End, Settings] = {}
        for pattern, change in changes.items():
            for end in after.matching(pattern):
                touched[end] = touched.get(end, Settings()).overlaid(change)
        transaction = Transaction(self.topology, after, touched, sysctls, self._snapshot, self._carry_out)
        followed = transaction.carry_out()
        self.topology = after
        self.built = renewed(self.built, touched, after, transaction.last.devices)
        return followed

    def restart_pumps(self) -> bool:
        """Start again the pumps that are gone, and whose TAPs have no carrier therefore; whether one was."""
        pumps = {
            operation: (
                End(operation.node, operation.device),
                End(operation.far_node, operation.far_device),
            )
            for operation in plan(self.topology)
            if isinstance(operation, Pump)
        }
        actual = self._actual({end for ends in pumps.values() for end in ends}, every_feature=False)
        gone = [pump for pump, ends in pumps.items() if not any(actual[end].carrier for end in ends)]
        self._execution(self.topology, ()).do(gone)
        return bool(gone)

    def read_back(self) -> dict[str, dict[str, Any]]:
        """`node:device` -> its actual settings by the kernel's names; without the devices that are gone."""
        return {str(end): state.summary() for end, state in self._read(self.topology.placed()).items()}

    def states(self) -> dict[End, ActualDevice]:
        """As `read_back`, in typed form: limits, and every feature with whether it is fixed."""
        return self._actual(self.topology.placed())

    def compared(self) -> list[Row]:
        """Requested and actual values, setting by setting, and what drifted in the nodes."""
        placed = self.topology.placed()
        actual = self._read(placed)
        drift = self.drift(actual)
        rows = [
            row
            for end in placed
            if end in actual
            for row in compare(end, placed[end].config, actual[end], drift.devices.get(end, []))
        ]
        return [*rows, *node_rows(drift)]

    def namespace(self, node: str) -> int:
        """A descriptor of the namespace of `node`, open as long as the lab."""
        return self._namespaces[node].namespace

    def counters(self) -> dict[str, Counters]:
        """`node:device` -> absolute counters (IFLA_STATS64)."""
        read = {node: read_counters(namespace) for node, namespace in self._namespaces.items()}
        return {str(end): read[end.node][end.device] for end in self.topology.placed()}

    def processes(self) -> dict[str, int]:
        """Role -> pid of what runs in its nodes now: before a workload, what its links need (pumps)."""
        return {process.role: process.pid for node in self._namespaces.values() for process in node.processes}

    def address(self, node: str, family: int) -> str:
        """The first address of `family` (4 or 6) that the topology gives to `node`, without prefix length."""
        if node not in self.nodes:
            raise InputError(f"no node '{node}'{did_you_mean(node, list(self.nodes))}")
        for end, placed in self.topology.placed().items():
            for interface in placed.config.addresses:
                if end.node == node and interface.version == family:
                    return str(interface.ip)
        raise InputError(f"{node}: the topology gives it no IPv{family} address")

    def close(self) -> None:
        """Remove the lab; idempotent."""
        for node in self._namespaces.values():
            node.close()

    def wait_ready(self) -> None:
        """Return when every device has carrier and no tentative address, and the settings requested."""
        placed = self.topology.placed()
        deadline = time.monotonic() + READY_TIMEOUT_S
        waiting = dict(placed)
        while True:
            actual = self._actual(waiting, every_feature=False)
            reasons = {
                end: _not_ready(state, carrier=has_carrier(placed, end)) for end, state in actual.items()
            }
            waiting = {end: placed[end] for end, reason in reasons.items() if reason}
            self._compare({end: state for end, state in actual.items() if end not in waiting})
            if not waiting:
                break
            if time.monotonic() > deadline:
                end = next(iter(waiting))
                raise TestbedError(f"{end}: {reasons[end]} {READY_TIMEOUT_S:g} s after it came up")
            time.sleep(0.001)
        self._verify_nodes()

    def verify(self, ends: Iterable[End]) -> None:
        """Read `ends` back. InputError for the first setting that differs from the requested."""
        self._compare(self._actual(ends, every_feature=False))

    def drift(self, actual: Mapping[End, ActualDevice] | None = None) -> Drift:
        """Changes by others to anything that the lab set or relies on."""
        actual = self._read(self.topology.placed()) if actual is None else actual
        return find_drift(self.topology, self._namespaces, actual, self.built)

    def mend(self) -> bool:
        """Undo drift; whether there was any. TestbedError for drift that needs a rebuild."""
        remedy = "`testbed up --rebuild` makes the lab again"
        mended = self.restart_pumps()
        try:
            for _ in range(PASSES):
                actual = self._read(self.topology.placed())
                drift = self.drift(actual)
                if reason := drift.rebuild():
                    raise TestbedError(f"{reason}, or take it away")
                if not drift:
                    break
                mended = True
                operations = plan_mending(self.topology, drift, actual, self.built)
                self._carry_out(self.topology, Snapshot(actual, {}, {}), operations)
            if mended:
                self.wait_ready()
                for line in self.drift().lines():
                    raise TestbedError(f"{line}, and setting it again did not mend it")
        except TestbedError as error:
            raise type(error)(f"{error}; {remedy}") from None
        return mended

    def baselines(self) -> dict[str, Baseline]:
        """The actual settings now, for `built`."""
        return baselines(self.states())

    def _compare(self, actual: Mapping[End, ActualDevice]) -> None:
        placed = self.topology.placed()
        for end, state in actual.items():
            for difference in differences(placed[end].config, state):
                raise setting_error(self.topology, end, difference)

    def _verify_nodes(self) -> None:
        """Sysctls, routes and neighbours."""
        for name, spec in self.topology.nodes.items():
            for key, difference in node_differences(self._namespaces[name], spec):
                raise self.topology.at(("nodes", name, *key), f"{name}: {difference}")

    def _actual(
        self,
        ends: Iterable[End],
        *,
        every_feature: bool = True,
        placed: Mapping[End, Placed] | None = None,
    ) -> dict[End, ActualDevice]:
        """Read `ends` back: their settings, and the features requested or all of them."""
        wanted = list(ends)
        read = self._read(wanted, every_feature=every_feature, placed=placed)
        for end in wanted:
            if end not in read:
                raise TestbedError(f"{end}: the device is gone; `testbed up --rebuild` makes it again")
        return read

    def _read(
        self,
        ends: Iterable[End],
        *,
        every_feature: bool = True,
        placed: Mapping[End, Placed] | None = None,
    ) -> dict[End, ActualDevice]:
        """As `_actual`, without the devices that are gone."""
        placed = self.topology.placed() if placed is None else placed
        wanted: dict[str, dict[str, Settings]] = {}
        for end in ends:
            wanted.setdefault(end.node, {})[end.device] = placed[end].config
        read = {
            node: read_devices(self._namespaces[node], devices, every_feature=every_feature)
            for node, devices in wanted.items()
        }
        return {
            End(node, device): read[node][device]
            for node in wanted
            for device in wanted[node]
            if device in read[node]
        }

    def _execution(self, topology: Topology, nodes: Iterable[str]) -> Execution:
        execution = Execution(topology, self._namespaces, NamespaceNode.make)
        for node in nodes:
            actual = read_devices(self._namespaces[node])
            execution.know(node, {name: device.ifindex for name, device in actual.items()})
        return execution

    def _snapshot(self, topology: Topology, sysctls: Iterable[tuple[str, str]]) -> Snapshot:
        """What the lab holds, compared with `topology`, and the present values of `sysctls` (node, name)."""
        placed = topology.placed()
        values: dict[tuple[str, str], str] = {}
        for node, name in sysctls:
            with suppress(InputError):  # there is none: told by whoever sets it
                values[node, name] = self.nodes[node].call(read_sysctl, name)
        lacking = {
            node: dict(node_differences(self._namespaces[node], spec))
            for node, spec in topology.nodes.items()
        }
        return Snapshot(self._actual(placed, placed=placed), values, lacking)

    def _carry_out(self, topology: Topology, known: Snapshot, operations: Iterable[Operation]) -> None:
        execution = Execution(topology, self._namespaces, NamespaceNode.make)
        indexes: dict[str, dict[str, int]] = {}
        for end, actual in known.devices.items():
            indexes.setdefault(end.node, {})[end.device] = actual.ifindex
        for node, devices in indexes.items():
            execution.know(node, devices)
        execution.do(operations)


def _not_ready(actual: ActualDevice, *, carrier: bool) -> str:
    if carrier and not actual.carrier:
        return "no carrier"
    return "an address is still tentative" if actual.tentative else ""


def settings_of(reference: str, given: Settings | Mapping[str, Any]) -> Settings:
    """Settings of the device `reference` from plain values. InputError for a wrong one."""
    if isinstance(given, Settings):
        return given
    return validate_value(reference, given, Settings)


def _allow_descriptors(needed: int) -> None:
    """Raise the soft limit of open files where many nodes need it: each holds its namespace and a socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
