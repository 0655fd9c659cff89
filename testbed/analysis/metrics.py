"""The registry of metrics: name, unit, title and source of each. Reports and `expect` derive from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from operator import attrgetter, mul
from typing import Any, Generic, Literal, TypeVar

from testbed.analysis.metric_key import DeviceMetric, Side
from testbed.records.round import CoreUse, Counters, Noise, Queue, Round, Tcp

Source = TypeVar("Source")
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric(Generic[Source]):
    """A figure. Its `name` is the one in reports and in `expect`; a device's stands behind the device.

    unit: of `read`, which gives None where a round does not know it. title: its column among the
    states and its row in comparisons, "" for a figure that tables do not show. better: which way is
    better, None where neither is. compared: tables compare it. interval: the states' table shows its
    interval beside the mean.
    """

    name: str
    unit: str
    read: Callable[[Source], float | None]
    title: str = ""
    better: Better | None = None
    compared: bool = False
    interval: bool = False


@dataclass(frozen=True)
class Family:
    """Figures in one unit that the round names: `name.member`. A member may have an entry of its own."""

    name: str
    member: str  # what stands for one in messages
    unit: str
    read: Callable[[Round], Mapping[str, float]]


@dataclass
class SideSizes:
    """What one side of a device saw in the measured seconds, by exact size and by frags."""

    sizes: dict[int, int] = field(default_factory=dict)
    frags: dict[int, int] = field(default_factory=dict)

    @cached_property
    def packets(self) -> int:
        return sum(self.sizes.values())

    @cached_property
    def bytes(self) -> int:
        return sum(map(mul, self.sizes.keys(), self.sizes.values()))


def recorded(part: str, *path: str) -> Callable[[Any], float | None]:
    """Reads an attribute of a record's parts; None where one of them is."""
    if not path:
        return attrgetter(part)
    below = recorded(*path)

    def read(record: Any) -> float | None:
        held = getattr(record, part)
        return None if held is None else below(held)

    return read


def retransmits_per_gb(record: Round) -> float | None:
    """Retransmitted segments per 10^9 bytes that arrived. A few are normal, hundreds mean loss."""
    workload = record.workload
    if workload is None or not workload.bytes or workload.retransmits is None:
        return None
    return workload.retransmits / (workload.bytes / 1e9)


def cpu_per_gb(record: Round) -> float | None:
    """CPU seconds of the whole machine for each 10^9 bytes, both over the measured seconds."""
    if record.cpu is None or not record.cpu.per_core or record.workload is None or not record.workload.bytes:
        return None
    busy = sum(core.user + core.system + core.softirq + core.irq for core in record.cpu.per_core)
    return busy / 100 * record.measured_s / (record.workload.bytes / 1e9)


def process_cpu_per_gb(record: Round) -> dict[str, float]:
    """Role -> what that process spent for each 10^9 bytes that arrived."""
    if record.cpu is None or record.workload is None or not record.workload.bytes:
        return {}
    gigabytes = record.workload.bytes / 1e9
    return {role: (use.user_s + use.system_s) / gigabytes for role, use in record.cpu.processes.items()}


def own_cpu(record: Round) -> float | None:
    """CPU seconds of this program with its collectors, set-up and reading left out."""
    own = record.cpu.processes.get("testbed") if record.cpu else None
    return own.user_s + own.system_s if own else None


def limited(by: Callable[[Tcp], int | None], record: Round) -> float | None:
    """Percent of the time with data under way in which something held it back."""
    tcp = record.tcp
    if tcp is None or not tcp.busy_us or (held := by(tcp)) is None:
        return None
    return 100 * held / tcp.busy_us


def latencies(record: Round) -> dict[str, float]:
    return record.workload.latency_us if record.workload else {}


def elapsed(record: Round) -> float | None:
    """netperf's column, where its classic output was read."""
    return record.measured_s if record.workload and record.workload.sockets else None


def frags(side: SideSizes) -> float | None:
    """Mean frags of the packets that carry any, where the collector sees them."""
    if not side.frags:
        return None
    total: int = sum(map(mul, side.frags.keys(), side.frags.values()))
    return total / sum(side.frags.values())


def frags_quantile(share: float, side: SideSizes) -> float | None:
    """What this share of the packets that carry frags stay at or below."""
    done, rank = 0, sum(side.frags.values()) * share
    for number, packets in sorted(side.frags.items()):
        done += packets
        if done >= rank:
            return number
    return None


LATENCY: dict[str, Any] = {"better": "lower", "compared": True, "interval": True}
CPU: dict[str, Any] = {"better": "lower", "compared": True, "interval": True}
# In the order in which tables show them.
METRICS: tuple[Metric[Round], ...] = (
    Metric(
        "bits_per_second",
        "bit/s",
        recorded("workload", "bits_per_second"),
        title="bitrate",
        better="higher",
        compared=True,
    ),
    Metric("bytes", "bytes", recorded("workload", "bytes")),
    Metric("measured_us", "us", lambda record: record.measured_s * 1e6),
    Metric(
        "retransmits",
        "segments",
        recorded("workload", "retransmits"),
        title="retransmits",
        better="lower",
        compared=True,
    ),
    Metric("retransmits_per_gb", "segments/GB", retransmits_per_gb, better="lower"),
    Metric("cpu_s_per_gb", "CPU s/GB", cpu_per_gb, title="CPU s/GB", **CPU),
    Metric(
        "cpu_s_per_gb.client",
        "CPU s/GB",
        lambda record: process_cpu_per_gb(record).get("client"),
        title="client CPU s/GB",
        **CPU,
    ),
    Metric(
        "transactions_per_second",
        "1/s",
        recorded("workload", "transactions_per_second"),
        title="transactions/s",
        better="higher",
        compared=True,
        interval=True,
    ),
    Metric("latency_us.min", "us", lambda record: latencies(record).get("min"), title="min us", **LATENCY),
    Metric("latency_us.p50", "us", lambda record: latencies(record).get("p50"), title="median us", **LATENCY),
    Metric("latency_us.p90", "us", lambda record: latencies(record).get("p90"), title="p90 us", **LATENCY),
    Metric("latency_us.p99", "us", lambda record: latencies(record).get("p99"), title="p99 us", **LATENCY),
    Metric("fairness", "", recorded("workload", "fairness"), title="fairness", better="higher"),
    # netperf's own columns, in its order; the throughput stands before them.
    Metric("sockets.receive", "bytes", recorded("workload", "sockets", "receive"), title="recv socket"),
    Metric("sockets.send", "bytes", recorded("workload", "sockets", "send"), title="send socket"),
    Metric("sockets.message", "bytes", recorded("workload", "sockets", "message"), title="message"),
    Metric("sockets.elapsed_s", "s", elapsed, title="elapsed s"),
    *(
        Metric(f"cpu.{cores}.{way}", "%", recorded("cpu", cores, way))
        for cores in ("app", "net")
        for way in CoreUse.__struct_fields__
    ),
    Metric("cpu_s.testbed", "CPU s", own_cpu),
    *(Metric(f"noise.{name}", "%", recorded("noise", name)) for name in Noise.__struct_fields__),
    Metric("tcp.rtt_us", "us", recorded("tcp", "rtt_us"), better="lower"),
    Metric("tcp.rttvar_us", "us", recorded("tcp", "rttvar_us"), better="lower"),
    Metric("tcp.snd_cwnd", "segments", recorded("tcp", "snd_cwnd")),
    Metric("tcp.retrans", "segments", recorded("tcp", "retrans"), better="lower"),
    Metric("tcp.reord_seen", "events", recorded("tcp", "reord_seen"), better="lower"),
    Metric("tcp.delivered_ce", "segments", recorded("tcp", "delivered_ce")),
    Metric("tcp.snd_mss", "bytes", recorded("tcp", "snd_mss")),
    Metric("tcp.snd_wnd", "bytes", recorded("tcp", "snd_wnd")),
    Metric("tcp.pmtu", "bytes", recorded("tcp", "pmtu")),
    Metric("tcp.rwnd_limited", "%", partial(limited, attrgetter("rwnd_limited_us"))),
    Metric("tcp.sndbuf_limited", "%", partial(limited, attrgetter("sndbuf_limited_us"))),
    Metric("kernel_log", "lines", lambda record: len(record.kernel_log), better="lower"),
    # Beside the seconds that count: set-up, the warm-up seconds, taking down.
    Metric("overhead_s", "s", lambda record: record.wall_s - record.measured_s, better="lower"),
)
FAMILIES = (
    Family("latency_us", "NAME", "us", latencies),
    Family("cpu_s_per_gb", "PROCESS", "CPU s/GB", process_cpu_per_gb),
)
COUNTER_METRICS: tuple[Metric[Counters], ...] = (
    Metric("drops", "packets", attrgetter("drops"), better="lower"),
    Metric("errors", "packets", attrgetter("errors"), better="lower"),
)
QUEUE_METRICS: tuple[Metric[Queue], ...] = (
    Metric("queue_mean", "bytes", attrgetter("backlog_bytes_mean"), better="lower"),
    Metric("queue_max", "bytes", attrgetter("backlog_bytes_max"), better="lower"),
    Metric("queue_packets_mean", "packets", attrgetter("backlog_packets_mean"), better="lower"),
    Metric("queue_packets_max", "packets", attrgetter("backlog_packets_max"), better="lower"),
    Metric("queue_drops", "packets", attrgetter("drops"), better="lower"),
    Metric("queue_overlimits", "events", attrgetter("overlimits")),
    Metric("queue_requeues", "packets", attrgetter("requeues"), better="lower"),
)
# Of one side of a device, beside its packet sizes, which are figures in packets too.
SIDE_METRICS: tuple[Metric[SideSizes], ...] = (
    Metric("packets", "packets", attrgetter("packets")),
    Metric("bytes", "bytes", attrgetter("bytes")),
    Metric("mean_size", "bytes", lambda side: side.bytes / side.packets),
    Metric("largest_size", "bytes", lambda side: max(side.sizes)),
    Metric("frags", "frags", frags),
    Metric("frags_low", "frags", partial(frags_quantile, 0.05)),
    Metric("frags_high", "frags", partial(frags_quantile, 0.95)),
)

BITS = "bits_per_second"
NAMED = {metric.name: metric for metric in METRICS}
_OF_DEVICES: tuple[Metric[Any], ...] = (*COUNTER_METRICS, *QUEUE_METRICS, *SIDE_METRICS)
OF_DEVICES = {metric.name: metric for metric in _OF_DEVICES}
COMPARED = {metric.name: metric for metric in METRICS if metric.compared}


def figures_of(record: Round, sides: Mapping[Side, SideSizes]) -> Iterator[tuple[str | DeviceMetric, float]]:
    """Every figure that the round knows, but for its packet sizes."""
    for metric in METRICS:
        if (value := metric.read(record)) is not None:
            yield metric.name, value
    for family in FAMILIES:
        for member, value in family.read(record).items():
            if (name := f"{family.name}.{member}") not in NAMED:
                yield name, value
    for reference, counters in record.counters.items():
        node, _, device = reference.partition(":")
        for counter in COUNTER_METRICS:
            if (value := counter.read(counters)) is not None:
                yield DeviceMetric(node, device, None, counter.name), value
    for place, queue in record.queues.items():
        node, _, device = place.partition(":")
        for of_queue in QUEUE_METRICS:
            if (value := of_queue.read(queue)) is not None:
                yield DeviceMetric(node, device, None, of_queue.name), value
    for side, seen in sides.items():
        for of_side, key in _metrics_of(side):
            if (value := of_side.read(seen)) is not None:
                yield key, value


@cache
def _metrics_of(side: Side) -> list[tuple[Metric[SideSizes], DeviceMetric]]:
    """With the key of each: a long run would make them thousands of times."""
    return [(metric, side.metric(metric.name)) for metric in SIDE_METRICS]


def unit_of(key: str | DeviceMetric) -> str:
    """The unit of a figure. KeyError for an unknown one."""
    if isinstance(key, DeviceMetric):
        return "packets" if isinstance(key.what, int) else OF_DEVICES[key.what].unit
    if key in NAMED:
        return NAMED[key].unit
    return next(family.unit for family in FAMILIES if key.startswith(f"{family.name}."))


def better_of(key: str | DeviceMetric) -> Better | None:
    """Which way of a figure is better; None where neither is, or nobody knows."""
    if isinstance(key, DeviceMetric):
        return OF_DEVICES[key.what].better if isinstance(key.what, str) else None
    return NAMED[key].better if key in NAMED else None


def sides_of(record: Round) -> dict[Side, SideSizes]:
    """What each side saw in the measured seconds; rows without any packet there are left out.

    A collector that saw no end of the warm-up leaves `measured_packets` at 0
    everywhere: then all packets count.
    """
    omitted = any(row.measured_packets for row in record.packet_sizes)
    sides: dict[Side, SideSizes] = {}
    node = device = direction = ""
    side = SideSizes()
    for row in record.packet_sizes:
        count = row.measured_packets if omitted else row.packets
        if not count:
            continue
        # Rows of a side stand together: compare with the row before, look up where they change.
        if row.direction != direction or row.device != device or row.node != node:
            node, device, direction = row.node, row.device, row.direction
            side = sides.setdefault(Side(node, device, row.direction), SideSizes())
        sizes, by_frags, nr_frags = side.sizes, side.frags, row.nr_frags
        sizes[row.size] = sizes.get(row.size, 0) + count
        if nr_frags:
            by_frags[nr_frags] = by_frags.get(nr_frags, 0) + count
    return sides
