"""What the kernel holds for the devices of a node, and how it differs from what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.devices import features as offloads
from testbed.devices.settings import Settings
from testbed.netlink import message
from testbed.netlink.ethtool import Feature
from testbed.netlink.qdisc import HeldQdisc, decode_root, list_qdiscs
from testbed.nodes.namespace import NamespaceNode
from testbed.records.round import Counters


@dataclass(frozen=True)
class Held:
    """A device as the kernel reports it. `values` are its settings and limits by the kernel's names."""

    ifindex: int
    up: bool
    carrier: bool
    values: Mapping[str, int | str | None]
    addresses: tuple[message.Address, ...]
    tentative: bool
    master: int | None = None  # the ifindex of the device that it is a port of
    features: Mapping[str, Feature] = field(default_factory=dict)
    tuned: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """For records: settings, limits, addresses, and the features that this device can change."""
        changeable = {name: state.active for name, state in self.features.items() if not state.fixed}
        addresses = [str(address) for address in self.addresses]
        held = {**self.values, "up": self.up, "addresses": addresses, "features": changeable}
        return held | dict(map(_plain, self.tuned.items()))


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


def read_held(
    node: NamespaceNode, asked: Mapping[str, Settings] | None = None, *, every_feature: bool = False
) -> dict[str, Held]:
    """Every device of `node`, by one dump of the links and one of the addresses.

    Features, qdisc options and what is in sysfs are read only for the devices in
    `asked`, and there only what those settings ask for (every feature, if so
    wanted): they cost more than all the rest.
    """
    links = [message.Link(data) for data in node.channel.dump(message.list_links())]
    addresses: dict[int, list[message.ActualAddress]] = {}
    for address in map(message.decode_address, node.channel.dump(message.list_addresses())):
        addresses.setdefault(address.ifindex, []).append(address)
    wanted = asked or {}
    qdiscs = _qdiscs(node) if any(settings.qdisc for settings in wanted.values()) else {}
    held = {}
    for link in links:
        settings = wanted.get(link.name, Settings())
        features = link.name in wanted and (every_feature or bool(settings.features))
        held[link.name] = _held(
            link,
            addresses.get(link.ifindex, []),
            node.features.get(link.name) if features else {},
            _tuned(node, link.name, settings)
            | ({"qdisc": qdiscs.get(link.ifindex)} if settings.qdisc else {}),
        )
    return held


def read_counters(node: NamespaceNode) -> dict[str, Counters]:
    """The absolute counters of every device of `node`."""
    counters = {}
    for link in map(message.Link, node.channel.dump(message.list_links(stats=True))):
        stats = link.get_attr("IFLA_STATS64")
        counters[link.name] = Counters(
            rx_packets=stats["rx_packets"],
            rx_bytes=stats["rx_bytes"],
            tx_packets=stats["tx_packets"],
            tx_bytes=stats["tx_bytes"],
            drops=stats["rx_dropped"] + stats["tx_dropped"],
            errors=stats["rx_errors"] + stats["tx_errors"],
        )
    return counters


def differences(asked: Settings, held: Held) -> list[Difference]:
    """Every setting of `asked` that reads back different."""
    found = [
        Difference(name, value, held.values.get(name))
        for name, value in asked.link_values().items()
        if held.values.get(name) != value
    ]
    found += _tuning_differences(asked, held.tuned)
    for name, on in asked.features.items():
        wrong = offloads.wrong(name, asked.features, held.features)
        if wrong is not None:
            found.append(Difference(f"features {_feature_name(name, wrong)}", on, not on))
    missing = [str(address) for address in asked.addresses if address not in held.addresses]
    if missing:
        found.append(Difference("addresses", " ".join(missing), " ".join(map(str, held.addresses)) or "none"))
    return found


def _plain(item: tuple[str, Any]) -> tuple[str, Any]:
    """Name and value in JSON's terms."""
    name, value = item
    if name == "qdisc":
        return "qdisc_options", value.options if value else {}
    return name, [sorted(queue) for queue in value] if isinstance(value, list) else value


def _qdiscs(node: NamespaceNode) -> dict[int, HeldQdisc]:
    roots = map(decode_root, node.channel.dump(list_qdiscs()))
    return {root.ifindex: root for root in roots if root}


def _tuned(node: NamespaceNode, device: str, asked: Settings) -> dict[str, Any]:
    """What sysfs holds of the settings that are asked for."""
    held: dict[str, Any] = {}
    if asked.threaded is not None:
        held["threaded"] = node.sysfs.threaded(device)
    if asked.rps_cpus is not None:
        held["rps_cpus"] = node.sysfs.cpus(device, "rx")
    if asked.xps_cpus is not None:
        held["xps_cpus"] = node.sysfs.cpus(device, "tx")
    return held


def _tuning_differences(asked: Settings, held: Mapping[str, Any]) -> list[Difference]:
    found = []
    if asked.threaded is not None and held["threaded"] != asked.threaded:
        found.append(Difference("threaded", asked.threaded, held["threaded"]))
    for name in ("rps_cpus", "xps_cpus"):
        cpus = getattr(asked, name)
        if cpus is not None and any(queue != set(cpus) for queue in held[name]):
            words = "; ".join(",".join(map(str, sorted(queue))) or "none" for queue in held[name])
            found.append(Difference(name, ",".join(map(str, cpus)), words))
    if asked.qdisc is not None:
        found += _qdisc_differences(asked.qdisc, held["qdisc"])
    return found


def _qdisc_differences(asked: Any, held: HeldQdisc | None) -> list[Difference]:
    """Options within one percent: the kernel keeps times and bursts in ticks."""
    kind = held.kind if held else "none"
    if held is None or kind != asked.kind:
        return [Difference("qdisc", asked.kind, kind)]
    return [
        Difference(f"qdisc {name}", value, held.options.get(name, 0))
        for name, value in asked.options().items()
        if abs(held.options.get(name, 0) - value) > value / 100
    ]


def _held(
    link: message.Link,
    addresses: list[message.ActualAddress],
    features: Mapping[str, Feature],
    tuned: Mapping[str, Any],
) -> Held:
    values: dict[str, int | str | None] = {
        name: link.get_attr(attribute) for name, attribute in message.LINK_U32_REPORTED.items()
    }
    values |= {"mac": link.get_attr("IFLA_ADDRESS", ""), "qdisc": link.get_attr("IFLA_QDISC")}
    operational = link.get_attr("IFLA_OPERSTATE", "UNKNOWN") in {"UNKNOWN", "UP"}
    return Held(
        ifindex=link.ifindex,
        up=link.up,
        carrier=operational and link.get_attr("IFLA_CARRIER", 1) == 1,
        values=values,
        addresses=tuple(address.address for address in addresses),
        tentative=any(address.tentative for address in addresses),
        master=link.get_attr("IFLA_MASTER"),
        features=features,
        tuned=tuned,
    )


def _feature_name(name: str, wrong: list[str]) -> str:
    return f"{name} ({', '.join(wrong)})" if name in offloads.PATTERNS and wrong else name


def _word(value: Any) -> Any:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value
