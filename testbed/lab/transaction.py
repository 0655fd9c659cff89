"""Change a lab that is up, all or nothing, and find side effects on its other devices.

The kernel couples settings: a limit for IPv4 follows the general one, a bridge's
MTU its ports', a VLAN's the device's below it, and an MTU below 1280 takes the
IPv6 addresses away. So the whole lab is read before and after. What the topology
states and the change disturbed is set again; what nobody requested and moved
nevertheless is an error; after any error everything is put back and read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from testbed.devices.features import covers
from testbed.devices.links.kind import End
from testbed.devices.operations import AddAddress, DeleteAddress, Operation, SetSysctl
from testbed.devices.settings import Settings
from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.lab.read_back import ActualDevice, Difference, differences
from testbed.lab.snapshot import Moved, Snapshot, moved, moved_features, way_back
from testbed.topology.plan import plan_change, plan_nodes
from testbed.topology.spec import Topology
from testbed.yamlfile import Key

Sysctls = Mapping[str, Mapping[str, int | str]]
Read = Callable[[Topology, Iterable[tuple[str, str]]], Snapshot]
Do = Callable[[Topology, Snapshot, Iterable[Operation]], None]
# Setting one thing back can move another: a route's MTU rises with its device's.
PASSES = 2


class Transaction:
    """From the topology `before` to `after` by `changes` of devices and of sysctls (node -> name -> value).

    `read` takes a snapshot of the lab, `do` carries operations out; `last` is the
    snapshot after the change.
    """

    last: Snapshot

    def __init__(
        self,
        before: Topology,
        after: Topology,
        changes: Mapping[End, Settings],
        sysctls: Sysctls,
        read: Read,
        do: Do,
    ) -> None:
        self._before, self._after = before, after
        self._changes, self._sysctls = changes, sysctls
        self._reader, self._do = read, do

    def carry_out(self) -> list[Moved]:
        """Carry out the change. Returns the features that follow it by the kernel's own rules.

        InputError and MissingCapability as for `Lab.set`; the lab is then as it was
        before, or the error says what is not.
        """
        first = self._read(self._after)
        try:
            self._do(self._after, first, self._operations(first))
            self._mend(first)
            self.last = self._read(self._after)
            return self._judge(first, self.last)
        except BaseException as error:
            left = self._take_back(first)
            if left and isinstance(error, TestbedError):
                raise type(error)(f"{error}; and this could not be taken back: {left}") from None
            raise

    def _read(self, topology: Topology) -> Snapshot:
        return self._reader(
            topology, [(node, name) for node, values in self._sysctls.items() for name in values]
        )

    def _operations(self, first: Snapshot) -> list[Operation]:
        """Addresses go first and come last: an MTU below 1280 would take away those of IPv6 by itself."""
        gone: list[Operation] = []
        new: list[Operation] = []
        stated = self._before.placed()
        for end, change in self._changes.items():
            if "addresses" in change.model_fields_set:
                actual = first.devices[end].addresses
                leaving = {*stated[end].config.addresses} & {*actual} - {*change.addresses}
                gone += [DeleteAddress(*end, address) for address in actual if address in leaving]
                new += [AddAddress(*end, address) for address in change.addresses if address not in actual]
        sysctls = [
            SetSysctl(node, name, str(value))
            for node, values in self._sysctls.items()
            for name, value in values.items()
        ]
        return [*gone, *plan_change(self._after, self._changes), *new, *sysctls]

    def _mend(self, first: Snapshot) -> None:
        """Set again what the topology states and the change disturbed, wherever that is."""
        now = self._read(self._after)
        placed = self._after.placed()
        changes: dict[End, Settings] = {}
        operations: list[Operation] = []
        for end, found in self._disturbed(first, now).items():
            config = placed[end].config
            names = {difference.setting.split()[0] for difference in found} - {"addresses"}
            if names:
                changes[end] = config.only(names)
            actual = now.devices[end].addresses
            operations += [AddAddress(*end, address) for address in config.addresses if address not in actual]
        lost = plan_nodes(self._after, self._lost(first, now))
        mending = [*plan_change(self._after, changes), *operations, *lost]
        if mending:
            self._do(self._after, now, mending)

    def _disturbed(self, first: Snapshot, now: Snapshot) -> dict[End, list[Difference]]:
        """Settings that differ from the topology now and did not before (those are drift)."""
        before, after = self._before.placed(), self._after.placed()
        found = {}
        for end, actual in now.devices.items():
            earlier = {d.setting for d in differences(before[end].config, first.devices[end])}
            requested = self._changes.get(end, Settings()).model_fields_set
            found[end] = [
                difference
                for difference in differences(after[end].config, actual)
                if difference.setting not in earlier or difference.setting.split()[0] in requested
            ]
        return {end: wrong for end, wrong in found.items() if wrong}

    def _lost(self, first: Snapshot, now: Snapshot) -> dict[str, set[Key]]:
        """By node, the sysctls, routes and neighbours that it lacks and did not, or that were to change."""
        return {
            node: {
                key
                for key in lacking
                if key not in first.lacking[node] or key[1] in self._sysctls.get(node, {})
            }
            for node, lacking in now.lacking.items()
        }

    def _judge(self, first: Snapshot, now: Snapshot) -> list[Moved]:
        """Errors for what is not as requested, and for what moved without being requested."""
        for end, wrong in self._disturbed(first, now).items():
            raise setting_error(self._after, end, wrong[0])
        for node, lost in self._lost(first, now).items():
            for key in lost:
                raise self._after.at(("nodes", node, *key), f"{node}: {now.lacking[node][key]}")
        for move in moved(first, now):
            if not self._requested(move, first.devices[move.end]):
                raise InputError(
                    f"{self._after.where(move.end)}: {move.setting} would go from {move.before} to "
                    f"{move.after} with this change, and that is not requested: request it too "
                    f"({move.end}.{move.setting}={move.after}), or what it is to be"
                )
        return [move for move in moved_features(first, now) if not self._requested_feature(move)]

    def _requested(self, move: Moved, was: ActualDevice) -> bool:
        change = self._changes.get(move.end, Settings())
        config = self._after.placed()[move.end].config
        if move.setting == "addresses":
            return bool(config.addresses or "addresses" in change.model_fields_set)
        coupled = config.changed_values(change)
        return move.setting in coupled or getattr(config, move.setting, None) is not None

    def _requested_feature(self, move: Moved) -> bool:
        change = self._changes.get(move.end, Settings())
        return any(covers(name, move.setting) for name in change.features)

    def _take_back(self, first: Snapshot) -> str:
        """Put everything back, each step though another was refused. What is not as it was, as text."""
        for _ in range(PASSES):
            now = self._read(self._after)
            for operation in way_back(self._before, first, now):
                try:
                    self._do(self._before, now, [operation])
                except TestbedError:
                    continue  # seen below
        restored = self._read(self._after)
        left = [str(move) for move in (*moved(first, restored), *moved_features(first, restored))]
        left += [
            f"{node}: {lacking[key]}"
            for node, lacking in restored.lacking.items()
            for key in lacking.keys() - first.lacking[node].keys()
        ]
        return "; ".join(left)


def setting_error(topology: Topology, end: End, difference: Difference) -> TestbedError:
    """The error for a setting whose actual value is not the requested one."""
    where = topology.where(end, difference.setting.split()[0])
    error = MissingCapability if difference.actual is None else InputError
    return error(f"{where}: {difference}")
