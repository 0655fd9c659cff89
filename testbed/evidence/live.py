"""Live rates and packet sizes of a lab's devices, for `testbed watch` and `testbed sizes`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.evidence.counters import difference
from testbed.evidence.packet_sizes import by_device_key, records
from testbed.evidence.sizes import SizeSource
from testbed.lab.lab import Lab
from testbed.records.round import PacketSize

_BAR = 24


@dataclass(frozen=True)
class View:
    """One device and direction over `seconds`. `drops` and `errors` are the device's, of both directions."""

    reference: str
    direction: str
    seconds: float
    sizes: list[PacketSize]
    drops: int
    errors: int

    @property
    def packets(self) -> int:
        return sum(size.packets for size in self.sizes)

    @property
    def octets(self) -> int:
        return sum(size.packets * size.size for size in self.sizes)

    @property
    def largest(self) -> int:
        return max((size.size for size in self.sizes), default=0)


def looks(lab: Lab, source: SizeSource, interval: float) -> Iterator[list[View]]:
    """The lab's devices, rx and tx of each, every `interval` seconds. Stop the source when done."""
    devices = by_device_key(lab)
    source.start(lab)
    counters, sizes, at = lab.counters(), source.read(), time.monotonic()
    while True:
        time.sleep(interval)
        new_counters, new_sizes, now = lab.counters(), source.read(), time.monotonic()
        seen = records(devices, sizes, {}, new_sizes)
        moved = difference(counters, new_counters)
        yield [
            View(
                device.reference,
                direction,
                now - at,
                [s for s in seen if (s.node, s.device, s.direction) == (device.node, device.name, direction)],
                moved[device.reference].drops,
                moved[device.reference].errors,
            )
            for device in devices.values()
            for direction in ("rx", "tx")
        ]
        counters, sizes, at = new_counters, new_sizes, now


def shares(sizes: Sequence[PacketSize]) -> list[tuple[int, int, float]]:
    """Size, packets, and share of the bytes (0 to 1) of each size, the greatest share first."""
    packets: dict[int, int] = {}
    for size in sizes:
        packets[size.size] = packets.get(size.size, 0) + size.packets
    octets = sum(size * count for size, count in packets.items())
    rows = [(size, count, size * count / octets) for size, count in packets.items()]
    return sorted(rows, key=lambda row: (-row[2], -row[0]))


def bar(share: float) -> str:
    """A bar for a share of 0 to 1."""
    return "#" * max(1, round(share * _BAR))


def table(views: Sequence[View], most: int = 5) -> list[list[str]]:
    """Rows of device, direction, bit/s, packets/s, largest, drops, then size, packets/s, share and bar."""
    rows = []
    for view in views:
        lost = view.drops + view.errors
        head = [
            view.reference,
            view.direction,
            f"{8e-9 * view.octets / view.seconds:.3f}",
            f"{view.packets / view.seconds:.0f}",
            str(view.largest),
            str(lost),
        ]
        found = shares(view.sizes)[:most] or [(0, 0, 0.0)]
        for size, packets, share in found:
            sized = [str(size), f"{packets / view.seconds:.0f}", f"{share:.1%}", bar(share)]
            rows.append(head + (sized if packets else ["", "", "", ""]))
            head = [""] * 6
    return rows


HEADER = ["device", "", "Gbit/s", "packets/s", "largest", "lost", "size", "packets/s", "bytes", ""]
RIGHT = (2, 3, 4, 5, 6, 7, 8)
