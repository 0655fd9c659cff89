"""Keys of metrics: a plain name, or a typed key for a figure of a device, with its text form."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from testbed.records.round import Direction

DIRECTIONS: tuple[Direction, ...] = ("rx", "tx")


class DeviceMetric(NamedTuple):
    """A figure of a device or, with a direction, of what crosses it that way.

    what: the exact size of packets in bytes, or the name of a metric. As text it is
    `server:veth0 rx 862`, `server:veth0 rx mean_size`, `server:veth0 drops`.
    """

    node: str
    device: str
    direction: Direction | None
    what: str | int

    def __str__(self) -> str:
        return " ".join(str(word) for word in (self.reference, self.direction, self.what) if word is not None)

    @property
    def reference(self) -> str:
        """`NODE:DEVICE`."""
        return f"{self.node}:{self.device}"

    @property
    def size(self) -> int | None:
        """Of packets, in bytes; None for any other figure."""
        return self.what if isinstance(self.what, int) else None


class Side(NamedTuple):
    """One direction of one device, as text `server:veth0 rx`."""

    node: str
    device: str
    direction: Direction

    def __str__(self) -> str:
        return f"{self.node}:{self.device} {self.direction}"

    def metric(self, what: str | int) -> DeviceMetric:
        """Its packets of that size, or its figure of that name."""
        return DeviceMetric(*self, what)


class PacketSizeKey(NamedTuple):
    """Packets of one exact size (bytes, Ethernet header included) on one side of a device."""

    side: Side
    size: int


def packet_size(key: str | DeviceMetric) -> PacketSizeKey | None:
    """The side and size of a packet size's metric; None for any other."""
    if isinstance(key, str) or key.size is None or key.direction is None:
        return None
    return PacketSizeKey(Side(key.node, key.device, key.direction), key.size)


def key_of(text: object) -> str | DeviceMetric:
    """The key that a report's text stands for."""
    if isinstance(text, DeviceMetric):
        return text
    reference, *words = str(text).split(" ")
    node, colon, device = reference.partition(":")
    if not colon or not words:
        return str(text)
    direction = next((one for one in DIRECTIONS if one == words[0]), None)
    what = words[-1]
    return DeviceMetric(node, device, direction, int(what) if what.isdecimal() else what)


MetricKey = Annotated[
    str | DeviceMetric,
    PlainValidator(key_of),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]
"""A metric's key in a report's data; text in its JSON."""
