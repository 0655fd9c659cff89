"""What the kernel holds for the devices of a node, and how it differs from what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.experiments.records import Counters
from testbed.netlink import message
from testbed.netlink.ethtool import SHORT_NAMES, Feature, long_names
from testbed.nodes.namespace import NamespaceNode
from testbed.topology.settings import Settings

IF_OPER_UNKNOWN, IF_OPER_UP = 0, 6


@dataclass(frozen=True)
class Held:
    """A device as the kernel reports it. `values` are its settings and limits by the kernel's names."""

    ifindex: int
    up: bool
    carrier: bool
    values: Mapping[str, int | str | None]
    addresses: tuple[message.Address, ...]
    tentative: bool
    features: Mapping[str, Feature] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """For records: settings, limits, addresses, and the features that this device can change."""
        changeable = {name: state.active for name, state in self.features.items() if not state.fixed}
        addresses = [str(address) for address in self.addresses]
        return {**self.values, "up": self.up, "addresses": addresses, "features": changeable}


@dataclass(frozen=True)
class Difference:
    """A setting that the kernel holds otherwise than asked."""

    setting: str
    asked: Any
    held: Any

    def __str__(self) -> str:
        if self.held is None:
            return f"asked {self.setting} {self.asked}, but this kernel has no such setting"
        return f"asked {self.setting} {_word(self.asked)}, the kernel holds {_word(self.held)}"


def read_held(node: NamespaceNode, *, features_of: Iterable[str] = ()) -> dict[str, Held]:
    """Every device of `node`, by one dump of the links and one of the addresses."""
    links = [message.decode_link(body) for body in node.channel.dump(message.list_links())]
    addresses: dict[int, list[message.HeldAddress]] = {}
    for body in node.channel.dump(message.list_addresses()):
        address = message.decode_address(body)
        addresses.setdefault(address.ifindex, []).append(address)
    wanted = set(features_of)
    return {
        link.name: _held(
            link, addresses.get(link.ifindex, []), node.features.get(link.name) if link.name in wanted else {}
        )
        for link in links
    }


def read_counters(node: NamespaceNode) -> dict[str, Counters]:
    """The absolute counters of every device of `node`."""
    counters = {}
    for body in node.channel.dump(message.list_links(stats=True)):
        link = message.decode_link(body)
        stats = message.decode_stats(link.attributes[message.IFLA_STATS64])
        rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped = stats
        counters[link.name] = Counters(
            rx_packets=rx_packets,
            rx_bytes=rx_bytes,
            tx_packets=tx_packets,
            tx_bytes=tx_bytes,
            drops=rx_dropped + tx_dropped,
            errors=rx_errors + tx_errors,
        )
    return counters


def differences(asked: Settings, held: Held) -> list[Difference]:
    """Every setting of `asked` that reads back different."""
    found = [
        Difference(name, value, held.values.get(name))
        for name, value in asked.link_values().items()
        if held.values.get(name) != value
    ]
    for name, on in asked.features.items():
        members = long_names({name: on}, held.features)
        wrong = [member for member in members if held.features[member].active != on]
        if wrong or not members:
            found.append(Difference(f"features {_feature_name(name, wrong)}", on, not on))
    missing = [str(address) for address in asked.addresses if address not in held.addresses]
    if missing:
        found.append(Difference("addresses", " ".join(missing), " ".join(map(str, held.addresses)) or "none"))
    return found


def _held(link: message.Link, addresses: list[message.HeldAddress], features: Mapping[str, Feature]) -> Held:
    values: dict[str, int | str | None] = {
        name: link.u32(number) for name, number in message.LINK_U32_REPORTED.items()
    }
    mac = link.attributes.get(message.IFLA_ADDRESS, b"")
    values |= {"mac": mac.hex(":"), "qdisc": link.text(message.IFLA_QDISC)}
    operstate = link.attributes.get(message.IFLA_OPERSTATE, b"\0")[0]
    carrier = link.attributes.get(message.IFLA_CARRIER, b"\1")[0] == 1
    return Held(
        ifindex=link.ifindex,
        up=bool(link.flags & message.IFF_UP),
        carrier=carrier and operstate in {IF_OPER_UNKNOWN, IF_OPER_UP},
        values=values,
        addresses=tuple(address.address for address in addresses),
        tentative=any(address.tentative for address in addresses),
        features=features,
    )


def _feature_name(name: str, wrong: list[str]) -> str:
    return f"{name} ({', '.join(wrong)})" if name in SHORT_NAMES and wrong else name


def _word(value: Any) -> Any:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value
