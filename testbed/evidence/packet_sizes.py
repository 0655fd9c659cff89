"""Packet sizes and interface counters of a round, each checked against the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import TestbedError
from testbed.evidence.counters import compare, difference
from testbed.evidence.sizes import SizeKey, Sizes, SizeSource
from testbed.lab.lab import Lab, LabDevice
from testbed.records.round import Counters, PacketSize, PacketSizesMeta
from testbed.topology.names import fits

_ATTEMPTS = 50
DeviceKey = tuple[int, int]  # namespace inode, ifindex


@dataclass(frozen=True)
class Snapshot:
    """Counters and sizes read while nothing was under way."""

    counters: Mapping[str, Counters]
    sizes: Sizes


@dataclass
class _Round:
    lab: Lab
    devices: dict[DeviceKey, LabDevice]
    before: Snapshot
    at_measuring: Sizes = field(default_factory=dict)


class PacketSizes:
    """Collector: `packet_sizes`, `packet_sizes_meta`, `counters`, `counters_match`."""

    name = "packet_sizes"

    def __init__(
        self, source: SizeSource | None, *, devices: Sequence[str] = ("*:*",), reason: str | None = None
    ) -> None:
        """`source` None: counters only. `devices`: patterns. `reason`: why this source."""
        self._source = source
        self._patterns = devices
        self._reason = reason
        self._round: _Round | None = None

    def start(self, lab: Lab) -> None:
        self._round = None
        if self._source:
            self._source.start(lab)
        before = settled(lab, self._source)
        self._round = _Round(lab, by_device_key(lab), before)

    def measuring(self) -> None:
        if self._round and self._source:
            self._round.at_measuring = self._source.read()

    def stop(self) -> Mapping[str, Any]:
        this, self._round = self._round, None
        try:
            if this is None:
                return {}
            after = settled(this.lab, self._source)
            return self._fields(this, after)
        finally:
            if self._source:
                self._source.stop()

    def close(self) -> None:
        if self._source:
            self._source.close()

    def _fields(self, this: _Round, after: Snapshot) -> dict[str, Any]:
        counters = difference(this.before.counters, after.counters)
        if self._source is None:
            return {"counters": counters}
        seen = records(this.devices, this.before.sizes, this.at_measuring, after.sizes)
        lost = self._source.lost()
        checked = {device: counters[device] for device in _references(this.devices) if device in counters}
        verdict = compare(seen, checked)
        if verdict.mismatches or verdict.unseen:
            verdict = compare(seen, checked, merging=_merging(this.lab))
        invalid = [f"packet sizes differ from the counters: {text}" for text in verdict.mismatches]
        if lost and not verdict.unseen:
            invalid.append(f"packet sizes: {lost} packets lost by the collector")
        wanted = [size for size in seen if self._wants(size)]
        fields: dict[str, Any] = {
            "packet_sizes": wanted,
            "packet_sizes_meta": PacketSizesMeta(
                collector=self._source.name,
                lost=lost,
                reason=self._reason,
                rules={**self._source.rules(), **verdict.rules},
                unseen=verdict.unseen,
            ),
            "counters": counters,
            "counters_match": not (verdict.mismatches or verdict.unseen),
        }
        return fields | ({"invalid": invalid} if invalid else {})

    def _wants(self, size: PacketSize) -> bool:
        return any(fits(f"{size.node}:{size.device}", pattern) for pattern in self._patterns)


def settled(lab: Lab, source: SizeSource | None) -> Snapshot:
    """Counters and sizes that belong together: read until two readings in a row are the same.

    A packet is counted by the observer and by the device at two moments; between
    them, and between the two readings, the sums differ though nothing is wrong.
    """
    last = _read(lab, source)
    for _ in range(_ATTEMPTS):
        now = _read(lab, source)
        if now == last:
            return now
        last = now
    raise TestbedError("the lab's devices do not fall silent: traffic goes on before or after the flow")


def records(
    devices: Mapping[DeviceKey, LabDevice], before: Sizes, at_measuring: Sizes, after: Sizes
) -> list[PacketSize]:
    """The round's packets, largest first in each device and direction; devices outside the lab left out."""
    found = []
    for key, packets in after.items():
        device = devices.get((key.netns, key.ifindex))
        whole = packets - before.get(key, 0)
        if device and whole:
            measured = packets - max(at_measuring.get(key, 0), before.get(key, 0))
            found.append(_record(device, key, whole, measured))
    return sorted(found, key=lambda s: (s.node, s.device, s.direction, -s.size, -s.gso_size, -s.gso_segs))


def _record(device: LabDevice, key: SizeKey, packets: int, measured: int) -> PacketSize:
    return PacketSize(
        node=device.node,
        device=device.name,
        direction="tx" if key.tx else "rx",
        size=key.size,
        gso_size=key.gso_size,
        gso_segs=key.gso_segs,
        nr_frags=key.nr_frags,
        packets=packets,
        measured_packets=measured,
    )


def _read(lab: Lab, source: SizeSource | None) -> Snapshot:
    sizes = source.read() if source else {}
    return Snapshot(lab.counters(), sizes)


def by_device_key(lab: Lab) -> dict[DeviceKey, LabDevice]:
    """The lab's devices on this kernel, by namespace and ifindex."""
    found = {}
    for device in lab.devices():
        netns = lab.nodes[device.node].netns
        if netns is not None:
            found[netns, device.ifindex] = device
    return found


def _merging(lab: Lab) -> set[str]:
    """The devices with GRO on."""
    return {device for device, actual in lab.read_back().items() if actual["features"].get("rx-gro")}


def _references(devices: Mapping[DeviceKey, LabDevice]) -> list[str]:
    return [device.reference for device in devices.values()]
