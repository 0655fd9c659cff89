"""What a topology file says: nodes with their devices, routes and sysctls. Plain values, checked as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    WithJsonSchema,
)

from testbed.errors import InputError
from testbed.links import KINDS
from testbed.links.kind import Device, End
from testbed.topology.settings import Settings
from testbed.yamlfile import Document, Key, did_you_mean

IFNAMSIZ = 15


def _node_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise ValueError(f"'{name}' is not a node's name: letters, digits, - and _, a letter first")
    return name


def _device_name(name: str) -> str:
    if len(name) > IFNAMSIZ:
        raise ValueError(f"'{name}' is {len(name)} characters long, a device's name has at most {IFNAMSIZ}")
    if not re.fullmatch(r"[^\s/:*]+", name) or name in {".", ".."}:
        raise ValueError(f"'{name}' is not a device's name: no space, / : or *")
    if name == "lo":
        raise ValueError("every node has its lo already")
    return name


def _known_kind(value: Any) -> Any:
    kind = value.get("kind") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in KINDS:
        raise ValueError(
            f"unknown link kind '{kind}'{did_you_mean(kind, list(KINDS))}; known are {', '.join(KINDS)}"
        )
    return {} if value is None else value


def _tag(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return kind or "end"


def _network(value: Any) -> Any:
    if value == "default" or isinstance(value, IPv4Network | IPv6Network):
        return value
    try:
        return ip_network(str(value))
    except ValueError as error:
        raise ValueError(f"'{value}' is not 'default' or a network: {error}") from None


def _address(value: Any) -> Any:
    try:
        return ip_address(str(value))
    except ValueError:
        raise ValueError(f"'{value}' is not an IPv4 or IPv6 address") from None


def _sysctl(name: str) -> str:
    if not re.fullmatch(r"net(\.[A-Za-z0-9_/-]+)+", name):
        raise ValueError(f"'{name}' is not a sysctl of a network namespace, such as net.ipv4.ip_forward")
    return name


NodeName = Annotated[str, AfterValidator(_node_name)]
DeviceName = Annotated[str, AfterValidator(_device_name)]
SysctlName = Annotated[str, AfterValidator(_sysctl)]
Network = Annotated[
    Literal["default"] | IPv4Network | IPv6Network,
    BeforeValidator(_network),
    WithJsonSchema({"type": "string", "description": "'default' or a network with prefix length"}),
]
Address = Annotated[IPv4Address | IPv6Address, BeforeValidator(_address), WithJsonSchema({"type": "string"})]
if TYPE_CHECKING:
    AnyDevice = Any  # the union of the kinds' models, which only the list of kinds knows
else:
    _kinds = [Annotated[kind.config, Tag(name)] for name, kind in KINDS.items()]
    AnyDevice = Annotated[
        reduce(or_, _kinds, Annotated[Device, Tag("end")]), Discriminator(_tag), BeforeValidator(_known_kind)
    ]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Route(_Strict):
    """A route of a node, by the words of `ip route`."""

    to: Network
    via: Address | None = Field(None, description="the next hop")
    dev: DeviceName | None = Field(None, description="a device of the same node")
    metric: int | None = Field(None, ge=0)

    @property
    def family(self) -> int:
        """4 or 6; a default route has its next hop's family, and 4 without one."""
        by = self.via if self.to == "default" else self.to
        return 4 if by is None else by.version


class PumpSpec(_Strict):
    """The process that stands in place of a virtual machine behind a TAP, and copies its frames."""

    cpus: tuple[Annotated[int, Field(strict=True, ge=0)], ...] | None = Field(
        None, min_length=1, description="the CPUs it runs on, any by default"
    )


class NodeSpec(_Strict):
    """A node: its devices in the order in which they are listed, its routes and sysctls."""

    pump: PumpSpec | None = Field(None, description="the node is reached through a TAP, by a pump")

    devices: dict[DeviceName, AnyDevice] = Field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    sysctls: dict[SysctlName, int | str] = Field(default_factory=dict)


@dataclass(frozen=True)
class Placed:
    """A device in its place: the settings its own node states, and the link kind that makes it."""

    end: End
    config: Settings
    kind: str
    stated_by: End


class Topology(_Strict):
    """A topology file. `check` says what no single value can: names that must fit together."""

    nodes: dict[NodeName, NodeSpec]

    _document: Document | None = PrivateAttr(None)

    def placed(self) -> dict[End, Placed]:
        """Every device, those that only a peer names included, in the file's order."""
        made = {
            peer: stated
            for stated, config in self._stated()
            if config.kind and (peer := KINDS[config.kind].peer(config))
        }
        devices = {
            end: Placed(end, config, config.kind or self._kind(made[end]), made.get(end, end))
            for end, config in self._stated()
            if config.kind or end in made
        }
        implied = {
            end: Placed(end, Device(), self._kind(by), by) for end, by in made.items() if end not in devices
        }
        return devices | implied

    def matching(self, pattern: str) -> list[End]:
        """The devices that `pattern` (`node:device`, * in either) names. InputError when it names none."""
        node, _, device = pattern.partition(":")
        placed = self.placed()
        ends = [end for end in placed if fnmatchcase(end.node, node) and fnmatchcase(end.device, device)]
        if not ends:
            known = [str(end) for end in placed]
            hint = did_you_mean(pattern, known) or f"; there are {', '.join(known)}"
            raise InputError(f"'{pattern}' names no device of the topology{hint}")
        return ends

    def with_settings(self, changes: Mapping[str, Settings]) -> Topology:
        """This topology with `changes` (`node:device`, * in either -> settings) on top, the later winning."""
        nodes = {name: dict(node.devices) for name, node in self.nodes.items()}
        for pattern, settings in changes.items():
            for node, device in self.matching(pattern):
                nodes[node][device] = nodes[node].get(device, Device()).overlaid(settings)
        specs = {n: spec.model_copy(update={"devices": nodes[n]}) for n, spec in self.nodes.items()}
        return self.model_copy(update={"nodes": specs})

    def with_sysctls(self, changes: Mapping[str, Mapping[str, int | str]]) -> Topology:
        """This topology with `changes` (node -> sysctl -> value) on top."""
        nodes = dict(self.nodes)
        for node, values in changes.items():
            spec = nodes[node]
            nodes[node] = spec.model_copy(update={"sysctls": {**spec.sysctls, **values}})
        return self.model_copy(update={"nodes": nodes})

    def where(self, end: End, setting: str = "", value: Any = None) -> str:
        """`file:line: node:device` where the file states it (as `value`, if given), else `node:device`."""
        document = self._document
        if document is None:
            return str(end)
        key: Key = ("nodes", end.node, "devices", end.device)
        key = (*key, setting) if setting else key
        if key not in document.lines or (value is not None and _at(document.value, key) != value):
            return str(end)
        return f"{document.source}:{document.line(key)}: {end}"

    def at(self, key: Key, message: str) -> InputError:
        """An error at `key` of the file, or of the topology that came from none."""
        if self._document is not None:
            return self._document.error(key, message)
        return InputError(message)

    def _stated(self) -> Iterator[tuple[End, Any]]:
        for node, spec in self.nodes.items():
            for device, config in spec.devices.items():
                yield End(node, device), config

    def _kind(self, stated: End) -> str:
        return str(self.nodes[stated.node].devices[stated.device].kind)


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
    yield from _addresses(topology)
    yield from _routes(topology)


def below(topology: Topology, end: End) -> tuple[End, ...]:
    """The devices that must exist before `end`: its lower devices and its ports."""
    config = topology.nodes[end.node].devices.get(end.device)
    if config is None or config.kind is None:
        return ()
    kind = KINDS[config.kind]
    return tuple(End(end.node, name) for name in (*kind.lowers(config), *kind.ports(config)))


def _key(end: End, *more: str) -> Key:
    return ("nodes", end.node, "devices", end.device, *more)


def _links(topology: Topology) -> Iterator[tuple[Key, str]]:
    """Every link has its other end in a declared node, and every device is made by exactly one link."""
    made: dict[End, End] = {}
    for end, config in topology._stated():
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
    for end, config in topology._stated():
        if config.kind is None and end not in made:
            yield _key(end), f"{end}: no link makes this device: give it a kind, or name it as a link's peer"


def _device_mistake(name: str) -> str | None:
    try:
        _device_name(name)
    except ValueError as error:
        return str(error)
    return None


def _ownership(topology: Topology) -> Iterator[tuple[Key, str]]:
    """Lower devices and ports exist, and a port belongs to one device alone."""
    placed = topology.placed()
    ports: dict[End, End] = {}
    lowers: dict[End, End] = {}
    for end, config in topology._stated():
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
    for lower in below(topology, end):
        if path := _cycle(topology, lower, (*above, end), done):
            return path
    done.add(end)
    return ()


def _mtus(topology: Topology) -> Iterator[tuple[Key, str]]:
    """A device on top of another has at most that one's MTU, less what it puts around a frame."""
    placed = topology.placed()
    for end, config in topology._stated():
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


def _at(value: Any, key: Iterable[str | int]) -> Any:
    for part in key:
        value = value[part]
    return value
