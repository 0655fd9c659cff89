"""The path prediction for a lab that is up, from its actual settings and routes."""

from __future__ import annotations

from ipaddress import ip_address

from testbed.devices.links import KINDS
from testbed.devices.links.kind import End, IPAddress, LinkKind
from testbed.errors import InputError
from testbed.lab.lab import Lab
from testbed.lab.read_back import ActualDevice
from testbed.netlink.routing import route_to
from testbed.nodes.sysctl_files import read_sysctl
from testbed.path.predict import LEGACY_MAX_SIZE, Hop, Limits, Traits, predict
from testbed.path.route import Step, Way, walk


def forecast(lab: Lab, source: str, target: str, version: int, traits: Traits) -> list[Hop]:
    """The hops of a TCP flow of IP `version` from node `source` to the first address of node `target`.

    InputError for a node that is not there or has no such address, TestbedError
    where there is no way from the one to the other.
    """
    if source == target:
        raise InputError(f"a path leads from one node to another, and {source} is both")
    lab.address(source, version)
    steps = way_through(lab, source, target, version)
    timestamps = lab.nodes[source].call(read_sysctl, "net.ipv4.tcp_timestamps") != "0"
    return predict(steps, limits_of(lab), version, traits, timestamps=timestamps)


def way_through(lab: Lab, source: str, target: str, version: int) -> list[Step]:
    """The steps from `source` to `target`, by the actual routes."""
    names: dict[tuple[str, int | None], str] = {
        (end.node, state.ifindex): end.device for end, state in lab.states().items()
    }

    def route(node: str, address: IPAddress) -> Way:
        found = lab.nodes[node].call(route_to, str(address))
        return Way(names.get((node, found.ifindex), "lo"), found.via or address, found.metrics.get("mtu"))

    return walk(lab.topology, source, ip_address(lab.address(target, version)), route)


def limits_of(lab: Lab) -> dict[End, Limits]:
    """What decides about packets, for every device of the lab."""
    placed = lab.topology.placed()
    return {end: _limits(state, KINDS[placed[end].kind]) for end, state in lab.states().items()}


def _limits(actual: ActualDevice, kind: LinkKind) -> Limits:
    def number(name: str, otherwise: int) -> int:
        value = actual.values.get(name)
        return otherwise if value is None else int(value)

    gso, gro = (number(f"{way}_max_size", LEGACY_MAX_SIZE) for way in ("gso", "gro"))
    # Without limits of its own (kernel_facts: ipv4_limits) there is no IPv4 packet above 65536 bytes.
    return Limits(
        mtu=number("mtu", 1500),
        gso={6: gso, 4: number("gso_ipv4_max_size", min(gso, LEGACY_MAX_SIZE))},
        gro={6: gro, 4: number("gro_ipv4_max_size", min(gro, LEGACY_MAX_SIZE))},
        gso_max_segs=number("gso_max_segs", 65535),
        features=frozenset(name for name, feature in actual.features.items() if feature.active),
        merges=kind.merges,
        pumped=kind.pumped,
    )
