"""Read the devices of a node back, and compare them with the requested settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.devices import features as offloads
from testbed.devices.settings import Settings
from testbed.netlink import message
from testbed.netlink.ethtool import Feature
from testbed.netlink.qdisc_messages import ActualQdisc, decode_root, list_qdiscs
from testbed.nodes.namespace import NamespaceNode
from testbed.records.round import Counters


@dataclass(frozen=True)
class ActualDevice:
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
        actual = {**self.values, "up": self.up, "addresses": addresses, "features": changeable}
        return actual | dict(map(_plain, self.tuned.items()))


@dataclass(frozen=True)
class Difference:
    """A setting whose actual value is not the requested one."""

    setting: str
    requested: Any
    actual: Any

    def __str__(self) -> str:
        if self.actual is None:
            return f"requested {self.setting} {self.requested}, but this kernel has no such setting"
        return f"requested {self.setting} {_word(self.requested)}, the kernel holds {_word(self.actual)}"


def read_devices(
    node: NamespaceNode, requested: Mapping[str, Settings] | None = None, *, every_feature: bool = False
) -> dict[str, ActualDevice]:
    """Every device of `node`, by one dump of the links and one of the addresses.

    Features, qdisc options and what is in sysfs are read only for the devices in
    `requested`, and there only what those settings ask for (every feature, if so
    wanted): they cost more than all the rest.
    """
    links = [message.Link(data) for data in node.channel.dump(message.list_links())]
    addresses: dict[int, list[message.ActualAddress]] = {}
    for address in map(message.decode_address, node.channel.dump(message.list_addresses())):
        addresses.setdefault(address.ifindex, []).append(address)
    wanted = requested or {}
    qdiscs = _qdiscs(node) if any(settings.qdisc for settings in wanted.values()) else {}
    actual = {}
    for link in links:
        settings = wanted.get(link.name, Settings())
        features = link.name in wanted and (every_feature or bool(settings.features))
        actual[link.name] = _actual_device(
            link,
            addresses.get(link.ifindex, []),
            node.features.get(link.name) if features else {},
            _tuned(node, link.name, settings)
            | ({"qdisc": qdiscs.get(link.ifindex)} if settings.qdisc else {}),
        )
    return actual


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


def differences(requested: Settings, actual: ActualDevice) -> list[Difference]:
    """Every setting of `requested` that reads back different."""
    found = [
        Difference(name, value, actual.values.get(name))
        for name, value in requested.link_values().items()
        if actual.values.get(name) != value
    ]
    found += _tuning_differences(requested, actual.tuned)
    for name, on in requested.features.items():
        wrong = offloads.wrong(name, requested.features, actual.features)
        if wrong is not None:
            found.append(Difference(f"features {_feature_name(name, wrong)}", on, not on))
    missing = [str(address) for address in requested.addresses if address not in actual.addresses]
    if missing:
        found.append(
            Difference("addresses", " ".join(missing), " ".join(map(str, actual.addresses)) or "none")
        )
    return found


def _plain(item: tuple[str, Any]) -> tuple[str, Any]:
    """Name and value in JSON's terms."""
    name, value = item
    if name == "qdisc":
        return "qdisc_options", value.options if value else {}
    return name, [sorted(queue) for queue in value] if isinstance(value, list) else value


def _qdiscs(node: NamespaceNode) -> dict[int, ActualQdisc]:
    roots = map(decode_root, node.channel.dump(list_qdiscs()))
    return {root.ifindex: root for root in roots if root}


def _tuned(node: NamespaceNode, device: str, requested: Settings) -> dict[str, Any]:
    """The actual values in sysfs of the settings that are requested."""
    actual: dict[str, Any] = {}
    if requested.threaded is not None:
        actual["threaded"] = node.sysfs.threaded(device)
    if requested.rps_cpus is not None:
        actual["rps_cpus"] = node.sysfs.cpus(device, "rx")
    if requested.xps_cpus is not None:
        actual["xps_cpus"] = node.sysfs.cpus(device, "tx")
    return actual


def _tuning_differences(requested: Settings, actual: Mapping[str, Any]) -> list[Difference]:
    found = []
    if requested.threaded is not None and actual["threaded"] != requested.threaded:
        found.append(Difference("threaded", requested.threaded, actual["threaded"]))
    for name in ("rps_cpus", "xps_cpus"):
        cpus = getattr(requested, name)
        if cpus is not None and any(queue != set(cpus) for queue in actual[name]):
            text = "; ".join(",".join(map(str, sorted(queue))) or "none" for queue in actual[name])
            found.append(Difference(name, ",".join(map(str, cpus)), text))
    if requested.qdisc is not None:
        found += _qdisc_differences(requested.qdisc, actual["qdisc"])
    return found


def _qdisc_differences(requested: Any, actual: ActualQdisc | None) -> list[Difference]:
    """Options within one percent: the kernel keeps times and bursts in ticks."""
    kind = actual.kind if actual else "none"
    if actual is None or kind != requested.kind:
        return [Difference("qdisc", requested.kind, kind)]
    return [
        Difference(f"qdisc {name}", value, actual.options.get(name, 0))
        for name, value in requested.options().items()
        if abs(actual.options.get(name, 0) - value) > value / 100
    ]


def _actual_device(
    link: message.Link,
    addresses: list[message.ActualAddress],
    features: Mapping[str, Feature],
    tuned: Mapping[str, Any],
) -> ActualDevice:
    values: dict[str, int | str | None] = {
        name: link.get_attr(attribute) for name, attribute in message.LINK_U32_REPORTED.items()
    }
    values |= {"mac": link.get_attr("IFLA_ADDRESS", ""), "qdisc": link.get_attr("IFLA_QDISC")}
    operational = link.get_attr("IFLA_OPERSTATE", "UNKNOWN") in {"UNKNOWN", "UP"}
    return ActualDevice(
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
