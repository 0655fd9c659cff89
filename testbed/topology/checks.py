"""Checks of a whole topology: unknown names, cycles, addresses given twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from testbed.devices.links import KINDS
from testbed.devices.links.kind import End
from testbed.topology.names import device_name
from testbed.topology.spec import Topology, below
from testbed.topology.sysctls import mistake_in
from testbed.yamlfile import Key, did_you_mean

IPV6_MIN_MTU = 1280

# Far above the kernel's own limit of 8 (MAX_NEST_DEV in net/core/dev.c), and below Python's of recursion.
DEEPEST = 100


def check(topology: Topology) -> None:
    """InputError for the first mistake that only the whole topology shows, with file and line."""
    for key, message in mistakes(topology):
        raise topology.at(key, message)


def mistakes(topology: Topology) -> Iterator[tuple[Key, str]]:
    """Everything that does not fit together: where it stands in the file, and what is wrong."""
    if not topology.nodes:
        yield ("nodes",), "a topology needs at least one node"
    yield from _links(topology)
    yield from _ownership(topology)
    yield from _cycles(topology)
    yield from _mtus(topology)
    yield from _ipv6_mtus(topology)
    yield from _queues(topology)
    yield from _addresses(topology)
    yield from _routes(topology)
    yield from _neighbours(topology)
    yield from _sysctls(topology)


def _key(end: End, *more: str) -> Key:
    return ("nodes", end.node, "devices", end.device, *more)


def _links(topology: Topology) -> Iterator[tuple[Key, str]]:
    """Every link has its other end in a declared node, and every device is made by exactly one link."""
    made: dict[End, End] = {}
    for end, config in topology.stated():
        peer = KINDS[config.kind].peer(config) if config.kind else None
        if peer is None:
            continue
        if peer.node not in topology.nodes:
            hint = did_you_mean(peer.node, list(topology.nodes))
            yield _key(end, "peer"), f"{end}: peer {peer}: no node '{peer.node}'{hint}"
            continue
        if mistake := _device_mistake(peer.device):
            yield _key(end, "peer"), f"{end}: peer: {mistake}"
        other = topology.nodes[peer.node].devices.get(peer.device)
        if KINDS[config.kind].pumped and topology.nodes[peer.node].pump is None:
            key = ("nodes", peer.node)
            yield key, f"{peer.node}: {end} leads here by a {config.kind}: the node needs `pump: {{}}`"
        if peer == end:
            yield _key(end, "peer"), f"{end}: a device cannot be its own peer"
        elif other is not None and other.kind is not None:
            yield _key(end, "peer"), f"{end}: peer {peer} is a link of its own (kind {other.kind})"
        elif peer in made:
            yield _key(end, "peer"), f"{end}: peer {peer} is the peer of {made[peer]} already"
        made[peer] = end
    for end, config in topology.stated():
        if config.kind is None and end not in made:
            yield _key(end), f"{end}: no link makes this device: give it a kind, or name it as a link's peer"


def _device_mistake(name: str) -> str | None:
    try:
        device_name(name)
    except ValueError as error:
        return str(error)
    return None


def _ownership(topology: Topology) -> Iterator[tuple[Key, str]]:
    """Lower devices and ports exist, and a port belongs to one device alone."""
    placed = topology.placed()
    ports: dict[End, End] = {}
    lowers: dict[End, End] = {}
    for end, config in topology.stated():
        if config.kind is None:
            continue
        kind = KINDS[config.kind]
        for names, role, uses in (
            (kind.ports(config), "port", ports),
            (kind.lowers(config), "lower device", lowers),
        ):
            for name in names:
                used = End(end.node, name)
                if used not in placed:
                    known = [other.device for other in placed if other.node == end.node]
                    yield (
                        _key(end),
                        f"{end}: {role} '{name}' is not a device of {end.node}{did_you_mean(name, known)}",
                    )
                if role == "port" and used in ports:
                    yield _key(end), f"{end}: {used} is a port of {ports[used]} already"
                uses[used] = end
    for used in ports.keys() & lowers.keys():
        yield (
            _key(ports[used]),
            (
                f"{used} is a port of {ports[used]} and the lower device of {lowers[used]}: "
                "a port's packets go to its bridge, the other would see none; use the bridge instead"
            ),
        )


def _cycles(topology: Topology) -> Iterator[tuple[Key, str]]:
    done: set[End] = set()
    for start in topology.placed():
        path = _cycle(topology, start, (), done)
        if path:
            yield _key(path[0]), f"a cycle of devices: {' on '.join(map(str, path))}"
            return


def _cycle(topology: Topology, end: End, above: tuple[End, ...], done: set[End]) -> tuple[End, ...]:
    if end in above:
        return (*above[above.index(end) :], end)
    if end in done:
        return ()
    if len(above) > DEEPEST:
        raise topology.at(_key(end), f"{end}: more than {DEEPEST} devices stand on it, one on the other")
    for lower in below(topology, end):
        if path := _cycle(topology, lower, (*above, end), done):
            return path
    done.add(end)
    return ()


def _mtus(topology: Topology) -> Iterator[tuple[Key, str]]:
    """A device on top of another has at most that one's MTU, less what it puts around a frame."""
    placed = topology.placed()
    for end, config in topology.stated():
        if config.kind is None or config.mtu is None:
            continue
        kind = KINDS[config.kind]
        tunnel = kind.tunnel(config)
        overhead = tunnel.overhead if tunnel else 0
        for lower in (placed[End(end.node, name)] for name in kind.lowers(config)):
            below = lower.config.mtu if lower.config.mtu is not None else KINDS[lower.kind].usual_mtu
            if below is not None and config.mtu > below - overhead:
                less = f" - {overhead} = {below - overhead}" if overhead else ""
                yield (
                    _key(end, "mtu"),
                    f"{end}: mtu {config.mtu} is above what {lower.end} below it carries, {below}{less}",
                )


def _ipv6_mtus(topology: Topology) -> Iterator[tuple[Key, str]]:
    """IPv6 needs 1280 bytes (RFC 8200, IPV6_MIN_MTU): with less the kernel gives a device no IPv6 at all."""
    for end, placed in topology.placed().items():
        mtu = placed.config.mtu
        first = next((address for address in placed.config.addresses if address.version == 6), None)
        if first is not None and mtu is not None and mtu < IPV6_MIN_MTU:
            yield (
                _key(end, "mtu"),
                f"{end}: mtu {mtu} is too small for its address {first}: IPv6 needs at least {IPV6_MIN_MTU}",
            )


def _queues(topology: Topology) -> Iterator[tuple[Key, str]]:
    """With RPS in use, a packet of a transmit queue that the receiving end lacks makes the kernel warn.

    get_rps_cpu (net/core/dev.c) does so where the end has more than one queue; a packet
    of transmit queue n counts as one of receive queue n - 1 there.
    """
    placed = topology.placed()
    if all(each.config.rps_cpus is None for each in placed.values()):
        return
    for end, config in topology.stated():
        peer = KINDS[config.kind].peer(config) if config.kind and KINDS[config.kind].keeps_queue else None
        if peer not in placed:
            continue
        for one, other in ((end, peer), (peer, end)):
            sent, received = placed[one].config.num_tx_queues, placed[other].config.num_rx_queues
            if sent and received and 1 < received < sent - 1:
                yield (
                    _key(one, "num_tx_queues"),
                    f"{one}: num_tx_queues {sent}, but {other} has num_rx_queues {received}: with RPS in use "
                    f"the kernel warns (received packet on queue {received}); give {other} {sent - 1}, or 1",
                )


def _addresses(topology: Topology) -> Iterator[tuple[Key, str]]:
    owners: dict[Any, End] = {}
    for end, placed in topology.placed().items():
        for interface in placed.config.addresses:
            if interface.ip in owners:
                yield (
                    _key(end, "addresses"),
                    f"{end}: duplicate address {interface.ip}, {owners[interface.ip]} has it",
                )
            owners[interface.ip] = end


def _routes(topology: Topology) -> Iterator[tuple[Key, str]]:
    placed = topology.placed()
    for node, spec in topology.nodes.items():
        for index, route in enumerate(spec.routes):
            key: Key = ("nodes", node, "routes", index)
            if route.via is None and route.dev is None:
                yield key, f"{node}: route to {route.to} needs via or dev"
            if route.dev is not None and End(node, route.dev) not in placed:
                yield key, f"{node}: route to {route.to}: no device '{route.dev}'"
            if route.via is not None and route.to != "default" and route.via.version != route.to.version:
                yield key, f"{node}: route to {route.to}: via {route.via} is of the other family"


def _neighbours(topology: Topology) -> Iterator[tuple[Key, str]]:
    placed = topology.placed()
    for node, spec in topology.nodes.items():
        for index, neighbour in enumerate(spec.neighbours):
            if End(node, neighbour.dev) not in placed:
                key: Key = ("nodes", node, "neighbours", index)
                yield key, f"{node}: neighbour {neighbour.to}: no device '{neighbour.dev}'"


def _sysctls(topology: Topology) -> Iterator[tuple[Key, str]]:
    """A sysctl of a device is one of its own node."""
    devices = topology.devices()
    for node, spec in topology.nodes.items():
        for name in spec.sysctls:
            if mistake := mistake_in(name, devices[node]):
                yield ("nodes", node, "sysctls", name), f"{node}: {mistake}"
