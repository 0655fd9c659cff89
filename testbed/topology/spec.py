"""The model of a topology file: nodes with their devices, routes and sysctls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
    ValidationError,
    WithJsonSchema,
)

from testbed.devices.links import KINDS
from testbed.devices.links.kind import Device, End
from testbed.devices.settings import U32, Cpus, Mac, Settings
from testbed.errors import InputError
from testbed.topology.names import device_name, fits, node_name
from testbed.topology.sysctls import Sysctls, overlaid
from testbed.unit_fields import Bytes32
from testbed.yamlfile import Document, Key, did_you_mean


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


NodeName = Annotated[str, AfterValidator(node_name)]
DeviceName = Annotated[str, AfterValidator(device_name)]
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
    """A route of a node, with the keywords of `ip route`."""

    to: Network
    via: Address | None = Field(None, description="the next hop")
    dev: DeviceName | None = Field(None, description="a device of the same node")
    metric: U32 | None = None
    mtu: Bytes32 | None = Field(None, description="bytes; packets of this route are no larger")
    advmss: Bytes32 | None = Field(None, description="bytes; the MSS that the peer is told")
    initcwnd: Annotated[U32, Field(ge=1)] | None = Field(
        None, description="segments of a connection's first flight"
    )

    def metrics(self) -> dict[str, int]:
        """What the kernel calls the route's metrics, by its names."""
        given = {name: getattr(self, name) for name in ("mtu", "advmss", "initcwnd")}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def family(self) -> int:
        """4 or 6; a default route has its next hop's family, and 4 without one."""
        by = self.via if self.to == "default" else self.to
        return 4 if by is None else by.version


class Neighbour(_Strict):
    """A permanent neighbour, with the keywords of `ip neighbour`."""

    to: Address
    dev: DeviceName = Field(description="a device of the same node")
    lladdr: Mac


class PumpSpec(_Strict):
    """The process that stands in place of a virtual machine behind a TAP, and copies its frames."""

    cpus: Cpus | None = Field(None, min_length=1, description="the CPUs it runs on, any by default")


class NodeSpec(_Strict):
    """A node: its devices in the order in which they are listed, its routes and sysctls."""

    pump: PumpSpec | None = Field(None, description="the node is reached through a TAP, by a pump")

    devices: dict[DeviceName, AnyDevice] = Field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    sysctls: Sysctls = Field(
        default_factory=dict, description="of the node's namespace, as sysctl(8) spells them -> value"
    )


@dataclass(frozen=True)
class Placed:
    """A device with its settings and the link kind that makes it."""

    end: End
    config: Settings
    kind: str
    stated_by: End


class Topology(_Strict):
    """A topology file. What no single value can say, names that must fit together, is in checks.py."""

    nodes: dict[NodeName, NodeSpec]

    _document: Document | None = PrivateAttr(None)

    def placed(self) -> dict[End, Placed]:
        """Every device, those that only a peer names included, in the file's order."""
        made = {
            peer: stated
            for stated, config in self.stated()
            if config.kind and (peer := KINDS[config.kind].peer(config))
        }
        devices = {
            end: Placed(end, config, config.kind or self._kind(made[end]), made.get(end, end))
            for end, config in self.stated()
            if config.kind or end in made
        }
        implied = {
            end: Placed(end, Device(), self._kind(by), by) for end, by in made.items() if end not in devices
        }
        return devices | implied

    def devices(self) -> dict[str, list[str]]:
        """Node -> the names of its devices, those that only a peer names included."""
        found: dict[str, list[str]] = {node: [] for node in self.nodes}
        for end in self.placed():
            found.setdefault(end.node, []).append(end.device)
        return found

    def matching(self, pattern: str) -> list[End]:
        """The devices that `pattern` (`node:device`, * in either) names. InputError when it names none."""
        node, _, device = pattern.partition(":")
        placed = self.placed()
        ends = [end for end in placed if fits(end.node, node) and fits(end.device, device)]
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
        """This topology with `changes` (node -> sysctl -> value) on top. InputError for what is no sysctl."""
        nodes = dict(self.nodes)
        for node, values in changes.items():
            spec = nodes[node]
            try:
                sysctls = overlaid(spec.sysctls, values)
            except ValueError as error:
                raise InputError(f"{node}: {error}") from None
            nodes[node] = spec.model_copy(update={"sysctls": sysctls})
        return self.model_copy(update={"nodes": nodes})

    def where(self, end: End, setting: str = "", value: Any = None) -> str:
        """`file:line: node:device` where the file states it (as `value`, if given), else `node:device`."""
        document = self._document
        if document is None:
            return str(end)
        key: Key = ("nodes", end.node, "devices", end.device)
        if setting == "features" and (*key, setting) not in document.lines and value is None:
            setting = ""  # they stand among the settings
        key = (*key, setting) if setting else key
        if key not in document.lines:
            return str(end)
        if value is not None and not _states(_at(document.value, key), setting, value):
            return str(end)
        return f"{document.source}:{document.line(key)}: {end}"

    def at(self, key: Key, message: str) -> InputError:
        """An error at `key` of the file, or of the topology that came from none."""
        if self._document is not None:
            return self._document.error(key, message)
        return InputError(message)

    def stated(self) -> Iterator[tuple[End, Any]]:
        """Every device that the file states, with its own model."""
        for node, spec in self.nodes.items():
            for device, config in spec.devices.items():
                yield End(node, device), config

    def _kind(self, stated: End) -> str:
        return str(self.nodes[stated.node].devices[stated.device].kind)


def below(topology: Topology, end: End) -> tuple[End, ...]:
    """The devices that must exist before `end`: its lower devices and its ports."""
    config = topology.nodes[end.node].devices.get(end.device)
    if config is None or config.kind is None:
        return ()
    kind = KINDS[config.kind]
    return tuple(End(end.node, name) for name in (*kind.lowers(config), *kind.ports(config)))


def _states(stated: Any, setting: str, value: Any) -> bool:
    """Whether what a file states for `setting` means `value`: `64K` is 65536."""
    try:
        return bool(getattr(Settings.model_validate({setting: stated}), setting) == value)
    except (ValidationError, AttributeError):
        return bool(stated == value)


def _at(value: Any, key: Iterable[str | int]) -> Any:
    for part in key:
        value = value[part]
    return value
