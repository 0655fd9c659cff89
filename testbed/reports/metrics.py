"""Which figures a round gives. A further metric is one more line in METRICS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from sys import intern

from testbed.experiments.records import PacketSize, Round

Figures = Iterable[tuple[str, float | None]]
Sides = dict[str, list[tuple[PacketSize, int]]]  # `NODE:DEVICE rx` -> rows, and their packets that count


@dataclass(frozen=True)
class Metric:
    """A figure of a round, or a family of them, all in one unit.

    `read` gives (name, value); a value that is None is not known in that round.
    """

    unit: str
    read: Callable[[Round], Figures]


@dataclass(frozen=True)
class SideMetric:
    """The same, read from what the sides of the devices saw."""

    unit: str
    read: Callable[[Sides], Figures]


def bits_per_second(record: Round) -> Figures:
    yield "bits_per_second", record.workload.bits_per_second if record.workload else None


def transferred(record: Round) -> Figures:
    yield "bytes", record.workload.bytes if record.workload else None


def measured(record: Round) -> Figures:
    yield "measured_us", record.measured_s * 1e6


def retransmits(record: Round) -> Figures:
    yield "retransmits", record.workload.retransmits if record.workload else None


def retransmits_per_gb(record: Round) -> Figures:
    """Of the bytes that arrived: a few are normal, hundreds say that the path loses what it accepts."""
    workload = record.workload
    if workload is not None and workload.bytes and workload.retransmits is not None:
        yield "retransmits_per_gb", workload.retransmits / (workload.bytes / 1e9)


def transactions(record: Round) -> Figures:
    yield "transactions_per_second", record.workload.transactions_per_second if record.workload else None


def classic(record: Round) -> Figures:
    """netperf's columns beside the throughput: socket buffers and message in bytes, elapsed seconds."""
    if record.workload is not None and record.workload.sockets is not None:
        sockets = record.workload.sockets
        yield "sockets.receive", sockets.receive
        yield "sockets.send", sockets.send
        yield "sockets.message", sockets.message
        yield "sockets.elapsed_s", record.measured_s


def fairness(record: Round) -> Figures:
    yield "fairness", record.workload.fairness if record.workload else None


def cpu_per_gb(record: Round) -> Figures:
    """CPU seconds of the whole machine for each 10^9 bytes, both over the measured seconds."""
    if record.cpu is None or not record.cpu.per_core or record.workload is None or not record.workload.bytes:
        return
    busy = sum(core.user + core.system + core.softirq + core.irq for core in record.cpu.per_core)
    yield "cpu_s_per_gb", busy / 100 * record.measured_s / (record.workload.bytes / 1e9)


def process_cpu_per_gb(record: Round) -> Figures:
    """`cpu_s_per_gb.client` and `.server`: what that process spent for each 10^9 bytes that arrived."""
    if record.cpu is not None and record.workload is not None and record.workload.bytes:
        for role, use in record.cpu.processes.items():
            yield intern(f"cpu_s_per_gb.{role}"), (use.user_s + use.system_s) / (record.workload.bytes / 1e9)


def cpu_shares(record: Round) -> Figures:
    """`cpu.app.system`, `cpu.net.softirq`...: what the workload's and the network's cores did."""
    for name in ("app", "net"):
        use = getattr(record.cpu, name, None)
        if use is not None:
            for kind in type(use).model_fields:
                yield intern(f"cpu.{name}.{kind}"), getattr(use, kind)


def latency(record: Round) -> Figures:
    if record.workload is not None:
        for name, value in record.workload.latency_us.items():
            yield intern(f"latency_us.{name}"), value


def tcp_times(record: Round) -> Figures:
    yield "tcp.rtt_us", record.tcp.rtt_us if record.tcp else None
    yield "tcp.rttvar_us", record.tcp.rttvar_us if record.tcp else None


def tcp_state(record: Round) -> Figures:
    for name in ("snd_cwnd", "retrans", "reord_seen", "delivered_ce"):
        yield intern(f"tcp.{name}"), getattr(record.tcp, name, None)


def tcp_sizes(record: Round) -> Figures:
    for name in ("snd_mss", "snd_wnd", "pmtu"):
        yield intern(f"tcp.{name}"), getattr(record.tcp, name, None)


def packet_sizes(sides: Sides) -> Figures:
    """`NODE:DEVICE rx SIZE`: packets of each exact size in the measured seconds."""
    for side, rows in sides.items():
        packets: dict[int, int] = {}
        for row, count in rows:
            packets[row.size] = packets.get(row.size, 0) + count
        for size, count in packets.items():
            yield intern(f"{side} {size}"), count


def packet_shape(sides: Sides) -> Figures:
    """`NODE:DEVICE rx mean_size` and `largest_size`: of the packets of the measured seconds."""
    for side, rows in sides.items():
        count = sum(packets for _, packets in rows)
        yield intern(f"{side} mean_size"), sum(row.size * packets for row, packets in rows) / count
        yield intern(f"{side} largest_size"), max(row.size for row, _ in rows)


def frags(sides: Sides) -> Figures:
    """`NODE:DEVICE tx frags`: mean frags of the packets that carry any, where the collector sees them.

    `frags_low` and `frags_high` are what 5% of these packets stay at or below, and 95%.
    """
    for side, rows in sides.items():
        held = sorted((row.nr_frags, packets) for row, packets in rows if row.nr_frags)
        if held:
            count = sum(packets for _, packets in held)
            yield intern(f"{side} frags"), sum(number * packets for number, packets in held) / count
            yield intern(f"{side} frags_low"), _quantile(held, count * 0.05)
            yield intern(f"{side} frags_high"), _quantile(held, count * 0.95)


def drops(record: Round) -> Figures:
    for place, counters in record.counters.items():
        yield intern(f"{place} drops"), counters.drops
        yield intern(f"{place} errors"), counters.errors


def kernel_log(record: Round) -> Figures:
    yield "kernel_log", len(record.kernel_log)


def overhead(record: Round) -> Figures:
    """Seconds of a round beside those that count: set-up, the omitted seconds, taking down."""
    yield "overhead_s", record.wall_s - record.measured_s


METRICS = (
    Metric("bit/s", bits_per_second),
    Metric("bytes", transferred),
    Metric("us", measured),
    Metric("segments", retransmits),
    Metric("segments/GB", retransmits_per_gb),
    Metric("1/s", transactions),
    Metric("", fairness),
    Metric("bytes, s", classic),
    Metric("CPU s/GB", cpu_per_gb),
    Metric("CPU s/GB", process_cpu_per_gb),
    Metric("%", cpu_shares),
    Metric("us", latency),
    Metric("us", tcp_times),
    Metric("", tcp_state),
    Metric("bytes", tcp_sizes),
    Metric("packets", drops),
    Metric("lines", kernel_log),
    Metric("s", overhead),
)
# The same, of what each side of each device saw.
SIDE_METRICS = (
    SideMetric("packets", packet_sizes),
    SideMetric("bytes", packet_shape),
    SideMetric("frags", frags),
)


def figures(record: Round) -> Iterator[tuple[str, str, float]]:
    """Every figure of a round that is known: (name, unit, value)."""
    for metric in METRICS:
        for name, value in metric.read(record):
            if value is not None:
                yield name, metric.unit, value
    sides = sides_of(record)
    for side_metric in SIDE_METRICS:
        for name, value in side_metric.read(sides):
            if value is not None:
                yield name, side_metric.unit, value


def sides_of(record: Round) -> Sides:
    """What each side saw in the measured seconds; rows without any packet there are left out.

    A collector that saw no omitted seconds end leaves `measured_packets` at 0
    everywhere: then all packets count.
    """
    omitted = any(row.measured_packets for row in record.packet_sizes)
    sides: Sides = {}
    for row in record.packet_sizes:
        count = row.measured_packets if omitted else row.packets
        if count:
            sides.setdefault(f"{row.node}:{row.device} {row.direction}", []).append((row, count))
    return sides


def size_of(name: str) -> tuple[str, str, int] | None:
    """(`node:device`, direction, size) of a packet size's metric; None for any other."""
    place, _, rest = name.partition(" ")
    direction, _, size = rest.partition(" ")
    return (place, direction, int(size)) if size.isdigit() else None


def _quantile(held: list[tuple[int, int]], rank: float) -> float:
    """The first value of (value, packets), in order, at which `rank` packets are reached."""
    done = 0
    for value, packets in held:
        done += packets
        if done >= rank:
            return value
    return held[-1][0]
