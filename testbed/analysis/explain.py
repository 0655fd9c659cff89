"""Packet sizes explained by arithmetic: headers, segments, and the writes of the application.

Everything comes from one round's own record (what its devices held, the MSS, the size of
a write). A size that does not come out exactly is left without an explanation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.analysis.metric_key import DeviceMetric, Side, packet_size
from testbed.devices.links import KINDS
from testbed.headers import ETHERNET_HEADER, IP_HEADERS, JUMBO_OPTION, LARGEST_PAYLOAD, TCP_HEADER, TIMESTAMPS
from testbed.records.round import Round

# RFC 2018: 2 bytes and 8 for each block, after two NOPs (tcp_options_write() in net/ipv4/tcp_output.c);
# what 40 bytes of options hold is 4 blocks, 3 beside timestamps.
SACK, SACK_BLOCK, MOST_OPTIONS = 4, 8, 40
# iperf3 writes 128 KiB at a time over TCP unless -l says otherwise (DEFAULT_TCP_BLKSIZE in its iperf.h).
IPERF3_WRITE = 128 * 1024
# sk_setup_caps() in net/core/sock.c keeps MAX_TCP_HEADER + 1 bytes below the limit free; by the kernel's
# configuration that is at most this (include/net/tcp.h, include/linux/netdevice.h).
HEADER_RESERVE = 321
# More would fit too many sizes by chance: each number of writes fits one remainder of the MSS.
MOST_QUEUED_WRITES = 4


@dataclass(frozen=True)
class Flow:
    """The values that determine packet sizes of a TCP flow, in bytes."""

    family: int
    mss: int  # without TCP options, as TCP_INFO's snd_mss
    options: int
    write: int | None = None
    limit: int | None = None  # the sending device's gso_max_size for this family
    tunnels: tuple[int, ...] = ()  # what a tunnel of the topology puts around a frame
    addresses: frozenset[str] = frozenset()  # the flow's ends
    nodes: tuple[str, str] = ("", "")  # that send and receive it

    def acks(self, side: Side) -> bool:
        """Whether what passes here goes back to the sender; False between the two ends, where both do."""
        sender, receiver = self.nodes
        return (side.node, side.direction) in ((sender, "rx"), (receiver, "tx"))


@dataclass(frozen=True)
class Headers:
    """The headers of a packet: (bytes, name) from the outside in."""

    parts: tuple[tuple[int, str], ...]

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.parts)

    def __str__(self) -> str:
        return f"{self.size} ({', '.join(f'{size} {name}' for size, name in self.parts)})"


def explain(size: int, flow: Flow, *, carries: bool = True, acks: bool = False) -> str | None:
    """What a packet of `size` bytes (Ethernet header included) is made of; None where nothing fits.

    `carries` is false at a device that the flow's addresses are not on: packets may
    cross it inside a tunnel. `acks` is true where packets go back to the sender, whose
    options may have SACK blocks.
    """
    for headers in _headers(size, flow, carries):
        blocks = _sack_blocks(size - headers.size, flow) if acks else 0
        if blocks:
            whole = Headers((*headers.parts, (SACK + SACK_BLOCK * blocks, "SACK option")))
            return f"ACK with {blocks} SACK block{'s' if blocks > 1 else ''}: {whole}"
        words = _payload(size - headers.size, size, flow)
        if words:
            return f"{words} + {headers}" if size > headers.size else f"{words}: {headers}"
    return None


def explained(
    record: Round, state: Mapping[str, Any], keys: Iterable[str | DeviceMetric]
) -> dict[str | DeviceMetric, str]:
    """Packet size -> its explanation, for those of `keys` that are sizes and have one.

    `record` is any round of the state: what decides the sizes is the same in all.
    """
    flow = flow_of(record, state)
    if flow is None:
        return {}
    found: dict[str | DeviceMetric, str] = {}
    for key in keys:
        if not (packets := packet_size(key)):
            continue
        side = packets.side
        carries = not flow.tunnels or _carries(record, f"{side.node}:{side.device}", flow)
        words = explain(packets.size, flow, carries=carries, acks=flow.acks(side))
        if words:
            found[key] = words
    return found


def _carries(record: Round, reference: str, flow: Flow) -> bool:
    """Whether the device has an address of the flow: no tunnel is around its packets there."""
    addresses = record.settings.get(reference, {}).get("addresses", [])
    return bool({str(one).partition("/")[0] for one in addresses} & flow.addresses)


def flow_of(record: Round, state: Mapping[str, Any]) -> Flow | None:
    """The flow of a round, from its record and its state's options; None where the MSS is not known."""
    options = state.get("workload") or {}
    ends = record.workload.tuple if record.workload else None
    addresses = frozenset((ends.source, ends.destination)) if ends else frozenset[str]()
    family = (6 if ":" in ends.source else 4) if ends else int(options.get("family", 6))
    device = _sending_device(record, str(options.get("from", "")), ends.source if ends else "")
    tcp_options = _tcp_options(record, family)
    if tcp_options is None:
        return None
    mss = _mss(record, family, tcp_options, device.get("mtu"))
    if mss is None:
        return None
    limit = device.get("gso_ipv4_max_size" if family == 4 else "gso_max_size")
    return Flow(
        family,
        mss,
        tcp_options,
        _write(options),
        limit,
        tuple(_tunnels(state.get("topology") or {})),
        addresses,
        (str(options.get("from", "")), str(options.get("to", ""))),
    )


def _headers(size: int, flow: Flow, carries: bool) -> Iterator[Headers]:
    """The headers that a packet may have here; the likelier first."""
    tcp = f"TCP with {'timestamps' if flow.options else 'no options'}"
    inner = ((IP_HEADERS[flow.family], f"IPv{flow.family}"), (TCP_HEADER + flow.options, tcp))
    ethernet = (ETHERNET_HEADER, "Ethernet")
    outers = [()] if carries else [((tunnel, "tunnel"), ethernet) for tunnel in flow.tunnels]
    for outer in outers:
        frame = (ethernet, *outer)
        yield Headers((*frame, *inner))
        if flow.family == 6 and size > LARGEST_PAYLOAD:
            yield Headers((*frame, inner[0], (JUMBO_OPTION, "jumbo option"), inner[1]))


def _payload(payload: int, size: int, flow: Flow) -> str | None:
    if payload == 0:
        return "pure ACK"
    if payload < 0:
        return None
    whole, rest = divmod(payload, flow.mss)
    if payload == flow.write:
        return f"whole {payload}-byte write"
    if rest == 0:
        return f"{whole} x {flow.mss}{_largest(size, flow)}"
    return _remainder(payload, flow) if flow.write else None


def _sack_blocks(more: int, flow: Flow) -> int:
    """How many SACK blocks make a pure ACK so many bytes longer; 0 where none do."""
    blocks, rest = divmod(more - SACK, SACK_BLOCK)
    return blocks if blocks > 0 and rest == 0 and more + flow.options <= MOST_OPTIONS else 0


def _remainder(payload: int, flow: Flow) -> str | None:
    """What is left of a write, or of a few that had queued up, after whole segments went before it."""
    write = flow.write or 0
    for writes in range(1, MOST_QUEUED_WRITES + 1):
        before, rest = divmod(writes * write - payload, flow.mss)
        if before > 0 and rest == 0:
            source = f"a {write}-byte write" if writes == 1 else f"{writes} writes of {write} bytes"
            return f"{payload} (remainder of {source} after {before} x {flow.mss})"
    return None


def _largest(size: int, flow: Flow) -> str:
    """A remark where one more segment would exceed the device's limit."""
    if not flow.limit or flow.limit < 2 * flow.mss or size + flow.mss + HEADER_RESERVE <= flow.limit:
        return ""
    return f" (the most that gso_max_size {flow.limit} allows)"


def _sending_device(record: Round, node: str, source: str) -> Mapping[str, Any]:
    """Settings of the device that the flow leaves by: the one with its address, or the node's only one."""
    own = {
        reference: settings
        for reference, settings in record.settings.items()
        if reference.startswith(f"{node}:")
    }
    for settings in own.values():
        if source in {str(address).partition("/")[0] for address in settings.get("addresses", [])}:
            return settings
    return next(iter(own.values())) if len(own) == 1 else {}


def _tcp_options(record: Round, family: int) -> int | None:
    """Bytes of options in each segment, by the size of the pure ACKs: with timestamps 12, without 0."""
    base = ETHERNET_HEADER + IP_HEADERS[family] + TCP_HEADER
    seen: Counter[int] = Counter()
    for row in record.packet_sizes:
        if row.size - base in (0, TIMESTAMPS):
            seen[row.size - base] += row.packets
    return seen.most_common(1)[0][0] if seen else None


def _mss(record: Round, family: int, options: int, mtu: int | None) -> int | None:
    """The MSS that TCP reported, else that of its GSO packets, else what the MTU leaves."""
    if record.tcp is not None and record.tcp.snd_mss:
        return record.tcp.snd_mss
    by_gso: Counter[int] = Counter()
    for row in record.packet_sizes:
        if row.gso_size:
            by_gso[row.gso_size] += row.size * row.packets
    if by_gso:
        return by_gso.most_common(1)[0][0]
    if mtu is None:
        return None
    # A packet longer than a payload length field can say needs the jumbo option, whatever sends it.
    jumbo = JUMBO_OPTION if mtu > LARGEST_PAYLOAD + IP_HEADERS[6] else 0
    return mtu - IP_HEADERS[family] - TCP_HEADER - options - jumbo


def _write(options: Mapping[str, Any]) -> int | None:
    """Bytes that the application hands to the kernel at a time, None where that is not recorded."""
    if isinstance(options.get("length"), int):
        return int(options["length"])
    return IPERF3_WRITE if options.get("tool") == "iperf3" else None


def _tunnels(topology: Mapping[str, Any]) -> Iterator[int]:
    """What each tunnel of the topology puts around a frame, without the outer Ethernet header."""
    devices = [device for node in topology.get("nodes", {}).values() for device in node["devices"].values()]
    outer = set()
    for device in devices:
        kind = KINDS.get(device.get("kind"))
        tunnel = kind.tunnel(kind.config.model_validate(device)) if kind else None
        if tunnel:
            outer.add(tunnel.outer_bytes)
    yield from sorted(outer)
