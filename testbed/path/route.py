"""The devices that a packet crosses on its way through a topology, in their order.

Between nodes with an IP stack the kernel's routing decides, which the caller
asks for; between their devices the links of the topology do, searched for the
device that has the next hop's address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from testbed.devices.links import KINDS
from testbed.devices.links.kind import End, IPAddress, Tag, Tunnel
from testbed.errors import TestbedError
from testbed.topology.spec import Topology

MAX_NODES = 32


@dataclass(frozen=True)
class Way:
    """Where a node sends what goes to an address. `mtu` is the route's own, None for the device's."""

    device: str
    next_hop: IPAddress
    mtu: int | None = None


@dataclass(frozen=True)
class Step:
    """A packet at one device. `tunnels` are around it there, the outermost first.

    `tags` are the VLAN protocols that mark its outermost frame, the outermost first;
    `inner_tags`: how many mark the frames inside tunnels.
    """

    end: End
    direction: Literal["rx", "tx"]
    version: int  # of the outermost IP header, 4 or 6
    tunnels: tuple[Tunnel, ...] = ()
    tags: tuple[str, ...] = ()
    inner_tags: int = 0
    routed: bool = False  # sent by the node's IP stack, which keeps to the MTU
    mtu: int | None = None  # the route's own


Router = Callable[[str, IPAddress], Way]


def walk(topology: Topology, source: str, destination: IPAddress, route: Router) -> list[Step]:
    """The steps from the node `source` to `destination`. TestbedError where the topology has no way.

    `route` says for a node and an address which way the node's IP stack takes.
    """
    return _Walk(topology, route).to(source, destination, (), 0)


@dataclass(frozen=True)
class _Frame:
    """What the search below IP carries along."""

    next_hop: IPAddress
    version: int
    tunnels: tuple[Tunnel, ...]
    inner_tags: int
    tags: tuple[Tag, ...] = ()
    seen: frozenset[tuple[End, str]] = frozenset()

    def step(self, end: End, direction: Literal["rx", "tx"]) -> Step:
        tags = tuple(tag.protocol for tag in self.tags)
        return Step(end, direction, self.version, self.tunnels, tags, self.inner_tags)

    def at(self, end: End, direction: str) -> _Frame | None:
        """The frame marked as having been here; None when it was here before."""
        here = (end, direction)
        return None if here in self.seen else replace(self, seen=self.seen | {here})


class _Walk:
    """The links of a topology, as neighbours of each device."""

    def __init__(self, topology: Topology, route: Router) -> None:
        self._route = route
        self._placed = topology.placed()
        self._owners = {
            interface.ip: end for end, placed in self._placed.items() for interface in placed.config.addresses
        }
        self._peers: dict[End, End] = {}
        self._bridges: dict[End, End] = {}
        self._uppers: dict[End, list[End]] = {}
        for end, placed in self._placed.items():
            if placed.stated_by != end:
                self._peers |= {end: placed.stated_by, placed.stated_by: end}
                continue
            kind = KINDS[placed.kind]
            self._bridges |= {End(end.node, port): end for port in kind.ports(placed.config)}
            if kind.tunnel(placed.config) is None:
                for lower in kind.lowers(placed.config):
                    self._uppers.setdefault(End(end.node, lower), []).append(end)

    def to(self, node: str, address: IPAddress, tunnels: tuple[Tunnel, ...], inner_tags: int) -> list[Step]:
        """From one IP stack to the next, until the one that has `address`."""
        steps: list[Step] = []
        for _ in range(MAX_NODES):
            owner = self._owners.get(address)
            if owner is not None and owner.node == node:
                return steps
            way = self._route(node, address)
            frame = _Frame(way.next_hop, address.version, tunnels, inner_tags)
            found = self._leave(End(node, way.device), frame)
            if found is None:
                raise TestbedError(
                    f"{node}:{way.device}: the links from here do not lead to {way.next_hop}, "
                    f"the next hop to {address}"
                )
            first, *rest = found
            steps += [replace(first, routed=True, mtu=way.mtu), *rest]
            node = found[-1].end.node
        raise TestbedError(f"the routes to {address} go in circles after {MAX_NODES} nodes")

    def _leave(self, end: End, frame: _Frame) -> list[Step] | None:
        """Steps from sending at `end` to the arrival at the next hop; None when it does not lead there."""
        here = frame.at(end, "tx")
        if here is None or end not in self._placed:
            return None
        for rest in self._onward(end, here):
            if rest is not None:
                return [frame.step(end, "tx"), *rest]
        return None

    def _onward(self, end: End, frame: _Frame) -> Iterator[list[Step] | None]:
        placed = self._placed[end]
        if end in self._peers:
            yield self._arrive(self._peers[end], frame)
            return
        kind, config = KINDS[placed.kind], placed.config
        for port in kind.ports(config):
            yield self._leave(End(end.node, port), frame)
        tunnel = kind.tunnel(config)
        if tunnel is not None:
            yield self._through(tunnel, end, frame)
            return
        tag = kind.tag(config)
        inside = frame if tag is None else replace(frame, tags=(tag, *frame.tags))
        for lower in kind.lowers(config):
            yield self._leave(End(end.node, lower), inside)

    def _through(self, tunnel: Tunnel, end: End, frame: _Frame) -> list[Step] | None:
        """Around the frame goes an IP packet of its own, to a node that has the tunnel's other end."""
        for remote in tunnel.remotes:
            try:
                inner_tags = frame.inner_tags + len(frame.tags)
                steps = self.to(end.node, remote, (tunnel, *frame.tunnels), inner_tags)
            except TestbedError:
                continue
            node = steps[-1].end.node if steps else end.node
            for other in self._tunnel_ends(node, tunnel):
                rest = self._arrive(other, frame)
                if rest is not None:
                    return steps + rest
        return None

    def _tunnel_ends(self, node: str, tunnel: Tunnel) -> Iterator[End]:
        for end, placed in self._placed.items():
            found = KINDS[placed.kind].tunnel(placed.config) if end.node == node else None
            if found is not None and found.network == tunnel.network:
                yield end

    def _arrive(self, end: End, frame: _Frame) -> list[Step] | None:
        """Steps from the arrival at `end`. Devices on top of it come before the stack below them."""
        here = frame.at(end, "rx")
        if here is None:
            return None
        step = frame.step(end, "rx")
        owner = self._owners.get(frame.next_hop)
        if owner == end and not frame.tags:
            return [step]
        for rest in self._upward(end, here):
            if rest is not None:
                return [step, *rest]
        stops = owner is not None and owner.node == end.node and end not in self._bridges
        return [step] if stops and not frame.tags else None

    def _upward(self, end: End, frame: _Frame) -> Iterator[list[Step] | None]:
        for upper in self._uppers.get(end, ()):
            tag = KINDS[self._placed[upper].kind].tag(self._placed[upper].config)
            if tag is None:
                yield self._arrive(upper, frame)
            elif frame.tags and frame.tags[0] == tag:
                yield self._arrive(upper, replace(frame, tags=frame.tags[1:]))
        bridge = self._bridges.get(end)
        if bridge is None:
            return
        yield self._arrive(bridge, frame)
        for port in KINDS[self._placed[bridge].kind].ports(self._placed[bridge].config):
            yield self._leave(End(end.node, port), frame)
