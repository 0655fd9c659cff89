"""Which figures a round gives. A further metric is one more line in METRICS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import mul

from testbed.records.round import CoreUse, Round

Figures = Iterable[tuple[str, float | None]]


@dataclass(frozen=True)
class Metric:
    """A figure of a round, or a family of them, all in one unit.

    `read` gives (name, value); a value that is None is not known in that round.
    """

    unit: str
    read: Callable[[Round], Figures]


@dataclass(slots=True)
class Side:
    """What one side of a device saw in the measured seconds, by exact size and by frags."""

    sizes: dict[int, int] = field(default_factory=dict)
    frags: dict[int, int] = field(default_factory=dict)


Sides = dict[str, Side]  # by `NODE:DEVICE rx`


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
            yield f"cpu_s_per_gb.{role}", (use.user_s + use.system_s) / (record.workload.bytes / 1e9)


def cpu_shares(record: Round) -> Figures:
    """`cpu.app.system`, `cpu.net.softirq`...: what the workload's and the network's cores did."""
    for name in ("app", "net"):
        use = getattr(record.cpu, name, None)
        if use is not None:
            for kind in CoreUse.__struct_fields__:
                yield f"cpu.{name}.{kind}", getattr(use, kind)


def own_cpu(record: Round) -> Figures:
    """`cpu_s.testbed`: CPU seconds of this program with its collectors, set-up and reading left out."""
    own = record.cpu.processes.get("testbed") if record.cpu else None
    yield "cpu_s.testbed", own.user_s + own.system_s if own else None


def noise(record: Round) -> Figures:
    for name in ("cpu_pressure", "steal", "foreign"):
        yield f"noise.{name}", getattr(record.noise, name, None)


def latency(record: Round) -> Figures:
    if record.workload is not None:
        for name, value in record.workload.latency_us.items():
            yield f"latency_us.{name}", value


def tcp_times(record: Round) -> Figures:
    yield "tcp.rtt_us", record.tcp.rtt_us if record.tcp else None
    yield "tcp.rttvar_us", record.tcp.rttvar_us if record.tcp else None


def tcp_state(record: Round) -> Figures:
    for name in ("snd_cwnd", "retrans", "reord_seen", "delivered_ce"):
        yield f"tcp.{name}", getattr(record.tcp, name, None)


def tcp_sizes(record: Round) -> Figures:
    for name in ("snd_mss", "snd_wnd", "pmtu"):
        yield f"tcp.{name}", getattr(record.tcp, name, None)


def packets(sides: Sides) -> Figures:
    """`NODE:DEVICE rx packets`: all that the side saw, of any size."""
    for name, side in sides.items():
        yield f"{name} packets", sum(side.sizes.values())


def packet_shape(sides: Sides) -> Figures:
    """`NODE:DEVICE rx bytes`, `mean_size` and `largest_size`: of the packets of the measured seconds."""
    for name, side in sides.items():
        length = sum(map(mul, side.sizes.keys(), side.sizes.values()))
        yield f"{name} bytes", length
        yield f"{name} mean_size", length / sum(side.sizes.values())
        yield f"{name} largest_size", max(side.sizes)


def frags(sides: Sides) -> Figures:
    """`NODE:DEVICE tx frags`: mean frags of the packets that carry any, where the collector sees them.

    `frags_low` and `frags_high` are what 5% of these packets stay at or below, and 95%.
    """
    for name, side in sides.items():
        if side.frags:
            held = sorted(side.frags.items())
            count = sum(packets for _, packets in held)
            yield f"{name} frags", sum(number * packets for number, packets in held) / count
            yield f"{name} frags_low", _quantile(held, count * 0.05)
            yield f"{name} frags_high", _quantile(held, count * 0.95)


def drops(record: Round) -> Figures:
    for place, counters in record.counters.items():
        yield f"{place} drops", counters.drops
        yield f"{place} errors", counters.errors


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
    Metric("CPU s", own_cpu),
    Metric("%", noise),
    Metric("us", latency),
    Metric("us", tcp_times),
    Metric("", tcp_state),
    Metric("bytes", tcp_sizes),
    Metric("packets", drops),
    Metric("lines", kernel_log),
    Metric("s", overhead),
)
# The same, of what each side of each device saw beside its packet sizes, which are metrics too (gather.py).
SIDE_METRICS = (
    SideMetric("packets", packets),
    SideMetric("bytes", packet_shape),
    SideMetric("frags", frags),
)

PING_PONG = ("transactions_per_second", "latency_us.min", "latency_us.p90", "latency_us.p99")
# What the tables of comparisons show, in that order.
COMPARED = ("bits_per_second", "retransmits", "cpu_s_per_gb", "cpu_s_per_gb.client", *PING_PONG)


def sides_of(record: Round) -> Sides:
    """What each side saw in the measured seconds; rows without any packet there are left out.

    A collector that saw no omitted seconds end leaves `measured_packets` at 0
    everywhere: then all packets count.
    """
    omitted = any(row.measured_packets for row in record.packet_sizes)
    sides: Sides = {}
    node = device = direction = ""
    side = Side()
    for row in record.packet_sizes:
        count = row.measured_packets if omitted else row.packets
        if not count:
            continue
        # Rows of a side stand together: compare with the row before, look up where they change.
        if row.direction != direction or row.device != device or row.node != node:
            node, device, direction = row.node, row.device, row.direction
            side = sides.setdefault(f"{node}:{device} {direction}", Side())
        sizes, frags, nr_frags = side.sizes, side.frags, row.nr_frags
        sizes[row.size] = sizes.get(row.size, 0) + count
        if nr_frags:
            frags[nr_frags] = frags.get(nr_frags, 0) + count
    return sides


@lru_cache(maxsize=1 << 17)
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
