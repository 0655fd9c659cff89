"""The operations that bring a topology up: plain values, in the order in which they will be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import Any, Literal


@dataclass(frozen=True)
class Reference:
    """Stands for the interface index of a device of the same node, known only once it exists."""

    device: str

    def __str__(self) -> str:
        return self.device


@dataclass(frozen=True)
class Peer:
    """The other end of a link that is made in pairs, and the settings it gets in the same message."""

    node: str
    device: str
    values: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """An operation in one node. Its text reads like iproute2."""

    node: str

    def as_record(self) -> dict[str, Any]:
        """As a JSON record: operation, node, arguments, and text."""
        fields = {name: _plain(value) for name, value in vars(self).items() if value not in (None, {})}
        return {"operation": type(self).__name__, **fields, "text": str(self)}


@dataclass(frozen=True)
class MakeNode(Operation):
    """Make the node's network stack; its `lo` is up."""

    def __str__(self) -> str:
        return f"make node {self.node}"


@dataclass(frozen=True)
class SetSysctl(Operation):
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.node}: sysctl {self.name}={self.value}"


@dataclass(frozen=True)
class DeviceOperation(Operation):
    device: str

    @property
    def reference(self) -> str:
        return f"{self.node}:{self.device}"


@dataclass(frozen=True)
class CreateLink(DeviceOperation):
    """RTM_NEWLINK for `device`.

    `values` are settings given in the same message, by the kernel's names.
    `info` is the kind's IFLA_INFO_DATA by the kernel's attribute names, with
    `Reference` where an interface index belongs; `link` is the lower device.
    """

    kind: str
    values: Mapping[str, int | str] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    link: Reference | None = None
    peer: Peer | None = None

    def __str__(self) -> str:
        parts = [f"{self.node}: link add {self.device}", _pairs(self.values)]
        if self.link:
            parts.append(f"link {self.link}")
        parts.append(f"type {self.kind}")
        parts += [f"{name.lower().removeprefix('ifla_')} {value}" for name, value in self.info.items()]
        if self.peer:
            parts.append(f"peer {self.peer.node}:{self.peer.device} {_pairs(self.peer.values)}")
        return " ".join(word.strip() for word in parts if word)


@dataclass(frozen=True)
class Call(DeviceOperation):
    """Run a module-level function inside the node, for what netlink cannot do (a TAP is made by an ioctl).

    `text` says what it does, for the plan.
    """

    function: Any
    arguments: tuple[Any, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.node}: {self.text}"


@dataclass(frozen=True)
class Pump(DeviceOperation):
    """Start the process that copies frames between the TAP `device` and the TAP `far_device` of another node.

    It runs in the far node, which has it in place of a virtual machine.
    """

    far_node: str
    far_device: str

    def __str__(self) -> str:
        return f"{self.far_node}: pump {self.reference} {self.far_node}:{self.far_device}"


@dataclass(frozen=True)
class TakeDevice(DeviceOperation):
    """Move a NIC of this machine into the node, until the node is closed."""

    def __str__(self) -> str:
        return f"{self.node}: take {self.device} from this machine"


@dataclass(frozen=True)
class AddForwarding(DeviceOperation):
    """A static entry of a tunnel: frames for `mac` go to the far end `destination`."""

    mac: str
    destination: IPv4Address | IPv6Address

    def __str__(self) -> str:
        return f"{self.node}: fdb append {self.mac} dev {self.device} dst {self.destination}"


@dataclass(frozen=True)
class SetLink(DeviceOperation):
    """Change settings of a device by one message, in the order in which `values` holds them."""

    values: Mapping[str, int | str | Reference]

    def __str__(self) -> str:
        return f"{self.node}: link set {self.device} {_pairs(self.values)}"


@dataclass(frozen=True)
class SetUp(DeviceOperation):
    def __str__(self) -> str:
        return f"{self.node}: link set {self.device} up"


@dataclass(frozen=True)
class SetFeatures(DeviceOperation):
    features: Mapping[str, bool]

    def __str__(self) -> str:
        parts = " ".join(f"{name} {'on' if on else 'off'}" for name, on in self.features.items())
        return f"{self.node}: features {self.device} {parts}"


@dataclass(frozen=True)
class AddAddress(DeviceOperation):
    address: IPv4Interface | IPv6Interface

    def __str__(self) -> str:
        nodad = " nodad" if self.address.version == 6 else ""
        return f"{self.node}: address add {self.address} dev {self.device}{nodad}"


@dataclass(frozen=True)
class DeleteAddress(DeviceOperation):
    address: IPv4Interface | IPv6Interface

    def __str__(self) -> str:
        return f"{self.node}: address del {self.address} dev {self.device}"


@dataclass(frozen=True)
class DeleteQdisc(DeviceOperation):
    """Take the root qdisc away: the device has the kernel's default for it again. Harmless where it has."""

    def __str__(self) -> str:
        return f"{self.node}: qdisc del dev {self.device} root"


@dataclass(frozen=True)
class SetQdisc(DeviceOperation):
    """A root qdisc in place of the default; `options` in base units (netlink/qdisc_messages.py)."""

    kind: str
    options: Mapping[str, int]

    def __str__(self) -> str:
        return (
            f"{self.node}: qdisc replace dev {self.device} root {self.kind} {_pairs(self.options)}".rstrip()
        )


@dataclass(frozen=True)
class SetSteering(DeviceOperation):
    """The CPUs that receive (`rx`: RPS) or send (`tx`: XPS) for every queue of the device."""

    queue: Literal["rx", "tx"]
    cpus: tuple[int, ...]

    def __str__(self) -> str:
        name = {"rx": "rps_cpus", "tx": "xps_cpus"}[self.queue]
        return f"{self.node}: {self.device} {name} {','.join(map(str, self.cpus)) or 'none'}"


@dataclass(frozen=True)
class SetThreaded(DeviceOperation):
    on: bool

    def __str__(self) -> str:
        return f"{self.node}: {self.device} threaded {'on' if self.on else 'off'}"


@dataclass(frozen=True)
class AddNeighbour(DeviceOperation):
    """A permanent neighbour. `index`: its position in the node's list."""

    index: int
    address: IPv4Address | IPv6Address
    lladdr: str

    def __str__(self) -> str:
        return (
            f"{self.node}: neighbour add {self.address} lladdr {self.lladdr} dev {self.device} nud permanent"
        )


@dataclass(frozen=True)
class AddRoute(Operation):
    """A route, with the keywords of `ip route`. `index`: its position in the node's list; `to` None: default.

    `replace`: there may be one to the same network with other metrics.
    """

    index: int
    family: int
    to: IPv4Network | IPv6Network | None
    via: IPv4Address | IPv6Address | None = None
    dev: str | None = None
    metric: int | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    replace: bool = False

    def __str__(self) -> str:
        parts = [f"{self.node}: route {'replace' if self.replace else 'add'} {self.to or 'default'}"]
        parts += [f"{name} {value}" for name in ("via", "dev") if (value := getattr(self, name)) is not None]
        parts += [] if self.metric is None else [f"metric {self.metric}"]
        return " ".join([*parts, _pairs(self.metrics)]).rstrip()


def _plain(value: Any) -> Any:
    """`value` in JSON's terms."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, Peer):
        return {name: _plain(inner) for name, inner in vars(value).items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    if callable(value):
        return value.__name__
    return value if isinstance(value, int | str) else str(value)


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name} {value}" for name, value in values.items())
