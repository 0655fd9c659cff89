"""Interface counters: their difference over a round, and whether packet sizes agree with them. Pure.

Three rules, tried in turn for each device and direction:

- plain: the same packets and the same bytes.
- without Ethernet header: a veth whose peer takes packets by NAPI (its GRO is on)
  counts them after their 14 bytes are pulled off (veth_xdp_rcv in drivers/net/veth.c).
- merged by GRO: the device counted segments, and then they were merged. As many
  segments, and as many bytes with one header of a plausible length for each.

Where the device counted drops or errors, packets on transmit may be more by as
many: the driver dropped them after they had been seen (a tunnel counts a packet
that is too large for its outer header as an error).

Where the device counted more than was seen, the rest are unseen packets: the
collector was not called for them (see docs/decisions.md, "Packets that no program
saw"). How many may be unseen in a valid round is the experiment's `protocol.unseen`.
Every other difference is a mismatch: one of the two counts is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from testbed.headers import ETHERNET_HEADER, IP_HEADERS, JUMBO_OPTION, LARGEST_PAYLOAD
from testbed.records.round import Counters, PacketSize, Unseen

# Ethernet, IPv4 and UDP; and a tunnel over IPv6 with options.
SMALLEST_HEADERS, LARGEST_HEADERS = 42, 300
# A runt without its Ethernet header, and the largest packet that any limit allows (GSO_MAX_SIZE and headers).
SMALLEST_PACKET, LARGEST_PACKET = 28, 8 * 65535 + LARGEST_HEADERS
LARGEST_PLAIN_IPV6 = ETHERNET_HEADER + IP_HEADERS[6] + LARGEST_PAYLOAD


@dataclass
class Verdict:
    """By `node:device direction`: the rule that makes sizes and counters agree, if needed; packets unseen.

    mismatches: differences that unseen packets cannot explain, each as text.
    """

    rules: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, Unseen] = field(default_factory=dict)
    mismatches: list[str] = field(default_factory=list)


def difference(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, Counters]:
    """What each device counted between the two; a device that was not there before counted from 0."""
    return {
        reference: Counters(
            **{
                name: getattr(now, name) - getattr(before.get(reference, Counters()), name)
                for name in Counters.__struct_fields__
            }
        )
        for reference, now in after.items()
    }


def compare(
    sizes: Iterable[PacketSize], counters: Mapping[str, Counters], merging: Collection[str] = ()
) -> Verdict:
    """Compare each device of `counters` in both directions. `merging`: devices with GRO on."""
    seen: dict[tuple[str, str], list[PacketSize]] = {}
    for size in sizes:
        seen.setdefault((f"{size.node}:{size.device}", size.direction), []).append(size)
    verdict = Verdict()
    for reference, counted in counters.items():
        for direction in ("rx", "tx"):
            _compare(
                seen.get((reference, direction), []),
                reference,
                direction,
                counted,
                reference in merging,
                verdict,
            )
    return verdict


def _compare(
    sizes: Sequence[PacketSize],
    reference: str,
    direction: str,
    counted: Counters,
    merging: bool,
    verdict: Verdict,
) -> None:
    packets = sum(size.packets for size in sizes)
    octets = sum(size.packets * size.size for size in sizes)
    totals = getattr(counted, f"{direction}_packets"), getattr(counted, f"{direction}_bytes")
    if (packets, octets) == totals:
        return
    where = f"{reference} {direction}"
    if (packets, octets - ETHERNET_HEADER * packets) == totals:
        verdict.rules[where] = "without Ethernet header"
    elif merging and direction == "rx" and (headers := _headers_of_segments(sizes, *totals)):
        verdict.rules[where] = f"merged by GRO, segments with headers of {headers} bytes"
    elif direction == "tx" and any(
        _dropped(sizes, packets - totals[0], octets - pulled * totals[0] - totals[1], counted)
        for pulled in (0, ETHERNET_HEADER)
    ):
        verdict.rules[where] = f"{packets - totals[0]} dropped after they were seen"
    elif unseen := _unseen(sizes, *totals, merging=merging and direction == "rx"):
        verdict.unseen[where] = unseen
    else:
        verdict.mismatches.append(
            f"{where}: {packets} packets {octets} bytes seen, {totals[0]} packets {totals[1]} bytes counted"
        )


def _unseen(sizes: Sequence[PacketSize], packets: int, octets: int, *, merging: bool) -> Unseen | None:
    """The packets that were counted and not seen; None where the difference cannot be that.

    Of merged packets the bytes are an estimate, by the mean of what was counted:
    how long the headers of their segments were is unknown while some are missing.
    """
    seen = sum(size.packets for size in sizes)
    segments = sum(size.packets * max(1, size.gso_segs) for size in sizes)
    if merging and segments != seen:
        missing = packets - segments
        return Unseen.of(missing, round(missing * octets / packets), packets, octets) if missing > 0 else None
    missing = packets - seen
    length = sum(size.packets * size.size for size in sizes)
    for pulled in (0, ETHERNET_HEADER):
        rest = octets - (length - pulled * seen)
        if missing > 0 and missing * SMALLEST_PACKET <= rest <= missing * LARGEST_PACKET:
            return Unseen.of(missing, rest, packets, octets)
    return None


def _headers_of_segments(sizes: Sequence[PacketSize], packets: int, octets: int) -> int | None:
    """Bytes of headers that each segment had, if the merged packets stand for what was counted."""
    segments = sum(size.packets * max(1, size.gso_segs) for size in sizes)
    added = segments - sum(size.packets for size in sizes)
    if segments != packets or not added:
        return None
    for option in (0, JUMBO_OPTION):
        merged = sum(size.packets * _without(option, size) for size in sizes)
        for counted in (octets, octets + ETHERNET_HEADER * segments):
            headers, rest = divmod(counted - merged, added)
            plausible = rest == 0 and SMALLEST_HEADERS <= headers <= LARGEST_HEADERS
            if plausible and all(_may_have(size, headers, option) for size in sizes):
                return headers
    return None


def _without(option: int, size: PacketSize) -> int:
    """The length of a packet without the jumbo option that GRO put in, and that no segment had."""
    return size.size - option if size.size - option > LARGEST_PLAIN_IPV6 else size.size


def _may_have(size: PacketSize, headers: int, option: int) -> bool:
    """Whether a packet with so long headers falls into its number of segments."""
    if size.gso_segs <= 1:
        return True
    payload = _without(option, size) - headers
    return (size.gso_segs - 1) * size.gso_size < payload <= size.gso_segs * size.gso_size


def _dropped(sizes: Sequence[PacketSize], packets: int, octets: int, counted: Counters) -> bool:
    """Whether so many packets and bytes more than counted can be the device's drops and errors."""
    lengths = [size.size for size in sizes]
    lost = counted.drops + counted.errors
    return 0 < packets <= lost and packets * min(lengths) <= octets <= packets * max(lengths)
