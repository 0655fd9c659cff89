"""Interface counters: their difference over a round, and whether packet sizes agree with them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from testbed.experiments.records import Counters, PacketSize


def difference(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, Counters]:
    """What each device counted between the two; a device that was not there before counted from 0."""
    return {
        place: Counters(
            **{
                name: getattr(now, name) - getattr(before.get(place, Counters()), name)
                for name in Counters.model_fields
            }
        )
        for place, now in after.items()
    }


def compare(sizes: Iterable[PacketSize], counters: Mapping[str, Counters]) -> list[str]:
    """One line for each device and direction in which packets or bytes differ; empty when all agree."""
    packets: dict[tuple[str, str], int] = defaultdict(int)
    octets: dict[tuple[str, str], int] = defaultdict(int)
    for size in sizes:
        where = f"{size.node}:{size.device}", size.direction
        packets[where] += size.packets
        octets[where] += size.packets * size.size
    mismatches = []
    for place, counted in counters.items():
        for direction in ("rx", "tx"):
            seen = packets[place, direction], octets[place, direction]
            held = getattr(counted, f"{direction}_packets"), getattr(counted, f"{direction}_bytes")
            if seen != held:
                mismatches.append(
                    f"{place} {direction}: {seen[0]} packets {seen[1]} bytes seen, "
                    f"{held[0]} packets {held[1]} bytes counted"
                )
    return mismatches
