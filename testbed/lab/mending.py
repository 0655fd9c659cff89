"""Find drift in a lab that is up, and plan the operations that undo it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from testbed.devices.links import KINDS
from testbed.devices.links.kind import End
from testbed.devices.operations import AddAddress, DeleteAddress, Operation, Reference, SetLink, SetUp
from testbed.devices.settings import Settings
from testbed.lab.baseline import Baselines, restored, strayed
from testbed.lab.read_back import ActualDevice, Difference, differences, read_devices
from testbed.lab.read_back_node import extras, node_differences
from testbed.lab.snapshot import given
from testbed.nodes.namespace import NamespaceNode
from testbed.topology.plan import lower_first, plan_change, plan_nodes
from testbed.topology.spec import Placed, Topology
from testbed.yamlfile import Key

LOOPBACK = "lo"


@dataclass(frozen=True)
class Drift:
    """Everything that differs from the lab as it was built.

    `devices`: of each, the differences. `lacking`: node -> key of a sysctl, route
    or neighbour of its spec -> how it differs. `extra`: node -> what was added to
    it: (`device`, `route` or `neighbour`; which). `gone`: devices that are not there.
    """

    devices: Mapping[End, list[Difference]] = field(default_factory=dict)
    lacking: Mapping[str, Mapping[Key, str]] = field(default_factory=dict)
    extra: Mapping[str, list[tuple[str, str]]] = field(default_factory=dict)
    gone: tuple[End, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.devices or self.lacking or self.extra or self.gone)

    def rebuild(self) -> str | None:
        """The first reason why the lab cannot be mended as it is."""
        for end in self.gone:
            return f"{end}: the device is gone"
        for node, found in self.extra.items():
            for kind, name in found:
                return f"{node}: it has a {kind} that the topology does not state: {name}"
        return None

    def lines(self) -> Iterator[str]:
        """One line for each difference."""
        yield from (f"{end}: {difference}" for end, found in self.devices.items() for difference in found)
        yield from (f"{node}: {text}" for node, lacking in self.lacking.items() for text in lacking.values())
        yield from (
            f"{node}: {kind} {name} added" for node, found in self.extra.items() for kind, name in found
        )
        yield from (f"{end}: gone" for end in self.gone)


def find_drift(
    topology: Topology,
    nodes: Mapping[str, NamespaceNode],
    actual: Mapping[End, ActualDevice],
    built: Baselines,
) -> Drift:
    """What differs in `nodes`, and in what of their devices was read as `actual`."""
    placed, uppers = topology.placed(), masters(topology)
    devices: dict[End, list[Difference]] = {}
    names: dict[str, set[str]] = {node: set() for node in nodes}
    for end in placed:
        names[end.node].add(end.device)
    for end, state in actual.items():
        found = device_drift(placed[end].config, state, built, end, carrier=has_carrier(placed, end))
        upper = uppers.get(end)
        if upper and upper in actual and state.master != actual[upper].ifindex:
            found.append(Difference("master", upper.device, "another" if state.master else "none"))
        if found:
            devices[end] = found
    lacking: dict[str, dict[Key, str]] = {}
    extra: dict[str, list[tuple[str, str]]] = {}
    for name, spec in topology.nodes.items():
        missing = dict(node_differences(nodes[name], spec))
        if not read_devices(nodes[name])[LOOPBACK].up:
            missing[LOOPBACK,] = "requested lo up, the kernel holds it down"
        if missing:
            lacking[name] = missing
        if added := sorted(extras(nodes[name], spec, names[name])):
            extra[name] = added
    return Drift(devices, lacking, extra, tuple(end for end in placed if end not in actual))


def has_carrier(placed: Mapping[End, Placed], end: End) -> bool:
    """Whether the link that makes `end` gets its carrier by itself."""
    stated = placed[placed[end].stated_by]
    return KINDS[stated.kind].carrier(stated.config)


def masters(topology: Topology) -> dict[End, End]:
    """The devices that are enslaved to another, such as a bridge's ports, and to which."""
    return {
        End(end.node, port): end
        for end, placed in topology.placed().items()
        if placed.stated_by == end
        for port in KINDS[placed.kind].ports(placed.config)
    }


def device_drift(
    requested: Settings, actual: ActualDevice, built: Baselines, end: End, *, carrier: bool
) -> list[Difference]:
    """Every difference of one device; `carrier`: its link gets its carrier by itself."""
    found = differences(requested, actual)
    if not actual.up:
        found.append(Difference("up", True, False))
    elif carrier and not actual.carrier:
        found.append(Difference("carrier", True, False))
    if given(actual) - {*requested.addresses} and not any(d.setting == "addresses" for d in found):
        text = " ".join(str(address) for address in actual.addresses)
        found.append(Difference("addresses", " ".join(map(str, requested.addresses)) or "none", text))
    if str(end) in built:
        found += strayed(requested, built[str(end)], actual)
    return found


def plan_mending(
    topology: Topology, drift: Drift, actual: Mapping[End, ActualDevice], built: Baselines
) -> list[Operation]:
    """The operations that undo `drift`, where none of it needs a rebuild."""
    placed = topology.placed()
    uppers = masters(topology)
    stated: dict[End, Settings] = {}
    threaded: dict[End, Settings] = {}
    before: list[Operation] = []
    after: list[Operation] = []
    for end in lower_first(topology, placed):
        if end not in drift.devices:
            continue
        config = placed[end].config
        wrong = {difference.setting.split()[0] for difference in differences(config, actual[end])}
        stated[end] = config.only(wrong - {"addresses", "threaded"})
        threaded[end] = config.only(wrong & {"threaded"})
        if any(difference.setting == "master" for difference in drift.devices[end]):
            before.append(SetLink(*end, {"master": Reference(uppers[end].device)}))
        before += [DeleteAddress(*end, address) for address in given(actual[end]) - {*config.addresses}]
        if str(end) in built:
            before += restored(end, config, built[str(end)], actual[end])
        missing = [address for address in config.addresses if address not in actual[end].addresses]
        after += [AddAddress(*end, address) for address in missing]
        if not actual[end].up:
            after.append(SetUp(*end))
    loopbacks = [SetUp(node, LOOPBACK) for node, lacking in drift.lacking.items() if (LOOPBACK,) in lacking]
    nodes = {node: {*lacking} for node, lacking in drift.lacking.items()}
    return [
        *before,
        *plan_change(topology, stated),
        *after,
        *plan_change(topology, threaded),
        *loopbacks,
        *plan_nodes(topology, nodes),
    ]
