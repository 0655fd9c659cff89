"""A round's record: a line of rounds.jsonl.

Names are fixed once released; fields may be added. A run has thousands of rounds and one run.json:
a round is msgspec's, which reads a line of 18 KB in 90 us where pydantic takes 410 (and needs no
pydantic, which takes 5 s to import in an emulated guest), run.json is pydantic's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Direction = Literal["rx", "tx"]
Source = Literal["bpf", "af_packet"]  # what counts packets by size


def doc(text: str) -> Meta:
    """What a field means, for its JSON schema."""
    return Meta(description=text)


class Fields(msgspec.Struct, kw_only=True):
    """A round's record, or a part of one."""


class PacketSize(Fields, kw_only=True, gc=False):
    """Packets of one kind that crossed one device in one direction."""

    node: str
    device: str
    direction: Direction
    size: Annotated[int, doc("L2 length in bytes, Ethernet header included")]
    gso_size: Annotated[int, doc("payload bytes per segment of a GSO packet, 0 when not GSO")] = 0
    gso_segs: int = 0
    nr_frags: Annotated[int | None, doc("None where the collector cannot see it (af_packet)")] = None
    packets: Annotated[int, doc("over the whole flow, which is what the counters are compared with")]
    measured_packets: Annotated[int, doc("the part of packets after the warm-up seconds")] = 0


class Unseen(Fields):
    """Packets of one device and direction that its counters counted and the collector did not see."""

    packets: int
    bytes: int
    share: Annotated[float, doc("of the packets or of the bytes counted, whichever is more; 0 to 1")]

    @classmethod
    def of(cls, packets: int, octets: int, counted_packets: int, counted_octets: int) -> Unseen:
        """So many of the counted ones, of which there is at least one."""
        return cls(
            packets=packets,
            bytes=octets,
            share=max(packets / counted_packets, octets / max(1, counted_octets)),
        )


class PacketSizesMeta(Fields):
    collector: Source | Literal["none"] = "none"
    lost: Annotated[int, doc("events that found the map full or the ring overrun")] = 0
    reason: Annotated[str | None, doc("why this collector and not the first choice")] = None
    rules: Annotated[
        dict[str, str],
        doc("`node:device direction` -> how it was compared with the counters, where not plainly"),
    ] = {}
    unseen: Annotated[
        dict[str, Unseen],
        doc("`node:device direction` -> what the device counted and the collector did not see"),
    ] = {}


class Counters(Fields):
    """Differences over the round, from IFLA_STATS64."""

    rx_packets: int = 0
    rx_bytes: int = 0
    tx_packets: int = 0
    tx_bytes: int = 0
    drops: Annotated[int, doc("rx_dropped + tx_dropped")] = 0
    errors: Annotated[int, doc("rx_errors + tx_errors")] = 0


class CoreUse(Fields):
    """Percent of the measured seconds that one core spent."""

    user: float = 0.0
    system: float = 0.0
    softirq: float = 0.0
    irq: float = 0.0
    idle: float = 0.0
    iowait: float = 0.0
    steal: float = 0.0


class ProcessUse(Fields):
    """CPU seconds of one process of the workload, and of all that it started, after the warm-up seconds."""

    user_s: float
    system_s: float


class Cpu(Fields):
    per_core: list[CoreUse] = []
    app: Annotated[CoreUse | None, doc("mean of the cores that the workload ran on")] = None
    net: Annotated[CoreUse | None, doc("mean of the cores where softirq time fell")] = None
    app_cores: list[int] = []
    net_cores: list[int] = []
    processes: Annotated[
        dict[str, ProcessUse],
        doc("role -> CPU seconds; `testbed` is this program with its collectors"),
    ] = {}
    core_s: Annotated[float, doc("seconds of all cores together, in the measured seconds")] = 0.0
    accounted: Annotated[
        float | None,
        doc(
            "the share of core_s that is known to be idle, an interrupt's, stolen, the workload's, "
            "testbed's or another process's; kernel threads are the usual rest"
        ),
    ] = None
    irq_time: Annotated[
        str | None, doc("softirq and irq time: accounted exactly, or sampled by the tick")
    ] = None


class Tuple(Fields):
    """The flow's addresses and ports, as seen from the client."""

    source: str
    source_port: int
    destination: str
    destination_port: int


class Tcp(Fields):
    """The flow's TCP_INFO at its end, on the sending side."""

    node: str | None = None
    tuple: Tuple | None = None
    congestion: str | None = None
    rtt_us: int | None = None
    rttvar_us: int | None = None
    snd_cwnd: int | None = None
    snd_wnd: int | None = None
    retrans: int | None = None
    reord_seen: int | None = None
    delivered_ce: int | None = None
    snd_mss: int | None = None
    pmtu: int | None = None
    min_rtt_us: int | None = None
    delivery_rate: Annotated[int | None, doc("bytes a second")] = None
    pacing_rate: Annotated[int | None, doc("bytes a second")] = None
    bytes_sent: int | None = None
    bytes_retrans: int | None = None
    busy_us: Annotated[int | None, doc("time with data under way")] = None
    rwnd_limited_us: Annotated[int | None, doc("of it, held back by the receiver's window")] = None
    sndbuf_limited_us: Annotated[int | None, doc("of it, held back by the send buffer")] = None
    acked_bytes: Annotated[
        int | None,
        doc(
            "bytes acknowledged to all TCP sockets of the lab, from the first to the last time "
            "that each was seen in the measured seconds"
        ),
    ] = None
    sockets: Annotated[int | None, doc("how many those were")] = None
    samples: list[TcpSample] = []


@dataclass(kw_only=True)  # a report, which is pydantic's, has it too
class Stack:
    """A kernel stack that packets of the requested size had in common, the innermost function first."""

    device: Annotated[str, doc("its name only: perf knows no nodes")]
    direction: Direction
    samples: Annotated[int, doc("one packet in ten is a sample")]
    largest: Annotated[int, doc("bytes, Ethernet header included")]
    frames: list[str]


class Profile(Fields):
    """Where the CPU time of the round went."""

    samples: int
    functions: Annotated[dict[str, float], doc("function -> percent of the busy samples")]


class Softnet(Fields):
    """Differences of /proc/net/softnet_stat over the round, all CPUs of the machine."""

    processed: int = 0
    dropped: Annotated[int, doc("packets that found a CPU's backlog full")] = 0
    time_squeeze: Annotated[int, doc("times that net_rx_action ran out of budget or time")] = 0


class Udp(Fields):
    packets: int
    lost: int
    jitter_us: Annotated[float | None, doc("as the receiver estimated it (RFC 1889)")] = None


class FlowFigures(Fields):
    """One of several flows of a workload, or one stream of a flow."""

    tool: str
    source: Annotated[str | None, doc("the client's node, where flows differ in it")] = None
    destination: Annotated[str | None, doc("the server's node")] = None
    background: Annotated[bool, doc("load beside the flows that are measured")] = False
    bits_per_second: float | None = None
    retransmits: int | None = None
    latency_us: dict[str, float] = {}
    tuple: Tuple | None = None


class Sockets(Fields):
    """The columns of netperf's classic output, in bytes, as the sockets were at the start."""

    receive: int | None = None
    send: int | None = None
    message: int | None = None


class Zerocopy(Fields):
    """MSG_ZEROCOPY sends of the whole flow, by what their completions on the error queue said."""

    sends: int
    completions: int
    copied: Annotated[int, doc("completions of sends that the kernel copied after all")]
    enobufs: Annotated[int, doc("sends refused because optmem was full; read and sent again")] = 0


class Workload(Fields):
    tool: str
    version: str = ""
    client_argv: list[str] = []
    server_argv: list[str] = []
    bits_per_second: float | None = None
    bytes: int | None = None
    retransmits: int | None = None
    congestion: str | None = None
    tuple: Tuple | None = None
    latency_us: Annotated[dict[str, float], doc("name -> microseconds")] = {}
    transactions_per_second: Annotated[float | None, doc("request/response pairs")] = None
    udp: Udp | None = None
    tcp: Annotated[Tcp | None, doc("the flow's TCP_INFO as the tool itself reports it")] = None
    cores: Annotated[
        dict[str, CoreUse], doc("`source net`, `source app`...: as the tool itself reports them")
    ] = {}
    flows: Annotated[list[FlowFigures], doc("where there are several")] = []
    fairness: Annotated[float | None, doc("Jain's index of the flows that are measured, 1 is fair")] = None
    sockets: Sockets | None = None
    zerocopy: Zerocopy | None = None
    raw: Annotated[list[str], doc("files below the run's folder")] = []
    interval_s: Annotated[float | None, doc("length of each of `intervals`, in seconds")] = None
    intervals: Annotated[
        list[float], doc("bits a second in each interval of the measured seconds, where the tool tells them")
    ] = []
    omitted_intervals: Annotated[list[float], doc("the same of the warm-up seconds")] = []


class TcpSample(Fields):
    """The flow at one moment of the measured seconds."""

    at_s: Annotated[float, doc("seconds after measuring began")]
    rtt_us: int | None = None
    snd_cwnd: int | None = None
    snd_wnd: int | None = None
    retrans: int | None = None
    delivery_rate: Annotated[int | None, doc("bytes a second")] = None


class Noise(Fields):
    cpu_pressure: Annotated[
        float | None, doc("percent of the round in which a task waited for a CPU (PSI some)")
    ] = None
    steal: Annotated[float | None, doc("percent of all CPU time taken by the hypervisor")] = None
    foreign: Annotated[
        float | None,
        doc("CPU used by processes that are not the testbed's, percent of one core"),
    ] = None


class ClockStep(Fields):
    """A moment at which somebody set the wall clock, found by comparing it with CLOCK_MONOTONIC."""

    at_s: Annotated[float, doc("seconds into the round by which it had happened")]
    by_s: Annotated[float, doc("seconds forward; negative for back")]


class Queue(Fields):
    """The root qdisc of a device in the measured seconds. Its drops are not among the device's own."""

    kind: str
    samples: int
    backlog_bytes_max: int
    backlog_bytes_mean: float
    backlog_packets_max: Annotated[int, doc("GSO packets count once")]
    backlog_packets_mean: float
    drops: int
    overlimits: Annotated[int, doc("times that it had to wait (a shaper) or was full")]
    requeues: Annotated[int, doc("packets that the driver gave back")]


class Agreement(Fields):
    """How the bytes that arrived by the tool compare with what it has no say in; None where not known."""

    tool_over_devices: Annotated[
        float | None,
        doc("their ratio to the bytes that their node's lowest devices received, the largest of the nodes"),
    ] = None
    sockets_over_tool: Annotated[
        float | None,
        doc("the ratio to them of the bytes acknowledged to the senders' sockets in the measured seconds"),
    ] = None


class Round(Fields, kw_only=True):
    """One measurement of one state: a line of rounds.jsonl."""

    round: Annotated[int, doc("0-based, in order of execution")]
    block: int
    position: int
    state: str
    kernel: str
    boot: Annotated[int, doc("which boot of the run, where a run boots kernels")] = 0
    warmup: bool = False
    valid: bool = True
    reason: str | None = None
    started: str
    ended: str
    measured_s: float = 0.0
    wall_s: float = 0.0
    settings: Annotated[dict[str, dict[str, Any]], doc("node:device -> held values")] = {}
    workload: Workload | None = None
    packet_sizes: list[PacketSize] = []
    packet_sizes_meta: PacketSizesMeta = msgspec.field(default_factory=PacketSizesMeta)
    counters: dict[str, Counters] = {}
    counters_match: bool | None = None
    cpu: Cpu | None = None
    tcp: Tcp | None = None
    noise: Noise | None = None
    netstat: Annotated[
        dict[str, dict[str, int]],
        doc("node -> counters of /proc/net/snmp and netstat that moved"),
    ] = {}
    softnet: Softnet | None = None
    stacks: list[Stack] = []
    profile: Profile | None = None
    kernel_log: list[str] = []
    kernel_faults: Annotated[
        list[str], doc("`rule: line` for a WARN, BUG, oops, lockup... of the round")
    ] = []
    clock_steps: Annotated[
        list[ClockStep], doc("`started` and `ended` are of the wall clock, all else is not")
    ] = []
    agreement: Agreement | None = None
    queues: Annotated[dict[str, Queue], doc("`node:device` -> its root qdisc, where it is not noqueue")] = {}
    taint: Annotated[str | None, doc("the kernel's taint letters after the round")] = None


def checked(record: Round) -> Round:
    """The record as a reader will get it. ValueError where a value is not what its field says."""
    return msgspec.convert(msgspec.to_builtins(record), Round)
