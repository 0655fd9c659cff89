"""What a run leaves behind: the models of run.json and of each line of rounds.jsonl.

Names are fixed once released; fields may be added. Unknown fields of a later
version are kept when read, so that an old program does not lose them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1


class Record(BaseModel):
    model_config = ConfigDict(extra="allow")


class PacketSize(Record):
    """Packets of one kind that crossed one device in one direction."""

    node: str
    device: str
    direction: Literal["rx", "tx"]
    size: int = Field(description="L2 length in bytes, Ethernet header included")
    gso_size: int = Field(0, description="payload bytes per segment of a GSO packet, 0 when not GSO")
    gso_segs: int = 0
    nr_frags: int | None = Field(None, description="None where the collector cannot see it (af_packet)")
    packets: int = Field(description="over the whole flow, which is what the counters are compared with")
    measured_packets: int = Field(0, description="the part of packets after the omitted seconds")


class Unseen(Record):
    """Packets of one device and direction that its counters counted and the collector did not see."""

    packets: int
    bytes: int
    share: float = Field(description="of the packets or of the bytes counted, whichever is more; 0 to 1")

    @classmethod
    def of(cls, packets: int, octets: int, counted_packets: int, counted_octets: int) -> Unseen:
        """So many of the counted ones, of which there is at least one."""
        return cls(
            packets=packets,
            bytes=octets,
            share=max(packets / counted_packets, octets / max(1, counted_octets)),
        )


class PacketSizesMeta(Record):
    collector: Literal["bpf", "af_packet", "none"] = "none"
    lost: int = Field(0, description="events that found the map full or the ring overrun")
    reason: str | None = Field(None, description="why this collector and not the first choice")
    rules: dict[str, str] = Field(
        default_factory=dict,
        description="`node:device direction` -> how it was compared with the counters, where not plainly",
    )
    unseen: dict[str, Unseen] = Field(
        default_factory=dict,
        description="`node:device direction` -> what the device counted and the collector did not see",
    )

    @property
    def unseen_share(self) -> float:
        """The largest share of a device and direction that was unseen."""
        return max((one.share for one in self.unseen.values()), default=0.0)


class Counters(Record):
    """Differences over the round, from IFLA_STATS64."""

    rx_packets: int = 0
    rx_bytes: int = 0
    tx_packets: int = 0
    tx_bytes: int = 0
    drops: int = Field(0, description="rx_dropped + tx_dropped")
    errors: int = Field(0, description="rx_errors + tx_errors")


class CoreUse(Record):
    """Percent of the measured seconds that one core spent."""

    user: float = 0.0
    system: float = 0.0
    softirq: float = 0.0
    irq: float = 0.0
    idle: float = 0.0
    iowait: float = 0.0
    steal: float = 0.0


class ProcessUse(Record):
    """CPU seconds of one process of the workload, and of all that it started, after the omitted seconds."""

    user_s: float
    system_s: float


class Cpu(Record):
    per_core: list[CoreUse] = Field(default_factory=list)
    app: CoreUse | None = Field(None, description="mean of the cores that the workload ran on")
    net: CoreUse | None = Field(None, description="mean of the cores where softirq time fell")
    app_cores: list[int] = Field(default_factory=list)
    net_cores: list[int] = Field(default_factory=list)
    processes: dict[str, ProcessUse] = Field(
        default_factory=dict, description="role -> CPU seconds; `testbed` is this program with its collectors"
    )
    core_s: float = Field(0.0, description="seconds of all cores together, in the measured seconds")
    accounted: float | None = Field(
        None,
        description="the share of core_s that is known to be idle, an interrupt's, stolen, the workload's, "
        "testbed's or another process's; kernel threads are the usual rest",
    )
    irq_time: str | None = Field(
        None, description="softirq and irq time: accounted exactly, or sampled by the tick"
    )


class Tuple(Record):
    """The flow's addresses and ports, as seen from the client."""

    source: str
    source_port: int
    destination: str
    destination_port: int


class Tcp(Record):
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
    delivery_rate: int | None = Field(None, description="bytes a second")
    pacing_rate: int | None = Field(None, description="bytes a second")
    bytes_sent: int | None = None
    bytes_retrans: int | None = None
    busy_us: int | None = Field(None, description="time with data under way")
    rwnd_limited_us: int | None = Field(None, description="of it, held back by the receiver's window")
    sndbuf_limited_us: int | None = Field(None, description="of it, held back by the send buffer")
    samples: list[TcpSample] = Field(default_factory=list)


class Stack(Record):
    """A kernel stack that packets of the asked size had in common, the innermost function first."""

    device: str = Field(description="its name only: perf knows no nodes")
    direction: Literal["rx", "tx"]
    samples: int = Field(description="one packet in ten is a sample")
    largest: int = Field(description="bytes, Ethernet header included")
    frames: list[str]


class Profile(Record):
    """Where the CPU time of the round went."""

    samples: int
    functions: dict[str, float] = Field(description="function -> percent of the busy samples")


class Softnet(Record):
    """Differences of /proc/net/softnet_stat over the round, all CPUs of the machine."""

    processed: int = 0
    dropped: int = Field(0, description="packets that found a CPU's backlog full")
    time_squeeze: int = Field(0, description="times that net_rx_action ran out of budget or time")


class Udp(Record):
    packets: int
    lost: int
    jitter_us: float | None = Field(None, description="as the receiver estimated it (RFC 1889)")


class FlowFigures(Record):
    """One of several flows of a workload, or one stream of a flow."""

    tool: str
    source: str | None = Field(None, description="the client's node, where flows differ in it")
    destination: str | None = Field(None, description="the server's node")
    background: bool = Field(False, description="load beside the flows that are measured")
    bits_per_second: float | None = None
    retransmits: int | None = None
    latency_us: dict[str, float] = Field(default_factory=dict)
    tuple: Tuple | None = None


class Sockets(Record):
    """The columns of netperf's classic output, in bytes, as the sockets were at the start."""

    receive: int | None = None
    send: int | None = None
    message: int | None = None


class Zerocopy(Record):
    """MSG_ZEROCOPY sends of the whole flow, by what their completions on the error queue said."""

    sends: int
    completions: int
    copied: int = Field(description="completions of sends that the kernel copied after all")
    enobufs: int = Field(0, description="sends refused because optmem was full; read and sent again")


class Workload(Record):
    tool: str
    version: str = ""
    client_argv: list[str] = Field(default_factory=list)
    server_argv: list[str] = Field(default_factory=list)
    bits_per_second: float | None = None
    bytes: int | None = None
    retransmits: int | None = None
    congestion: str | None = None
    tuple: Tuple | None = None
    latency_us: dict[str, float] = Field(default_factory=dict, description="name -> microseconds")
    transactions_per_second: float | None = Field(None, description="request/response pairs")
    udp: Udp | None = None
    tcp: Tcp | None = Field(None, description="the flow's TCP_INFO as the tool itself reports it")
    cores: dict[str, CoreUse] = Field(
        default_factory=dict, description="`source net`, `source app`...: as the tool itself reports them"
    )
    flows: list[FlowFigures] = Field(default_factory=list, description="where there are several")
    fairness: float | None = Field(None, description="Jain's index of the flows that are measured, 1 is fair")
    sockets: Sockets | None = None
    zerocopy: Zerocopy | None = None
    raw: list[str] = Field(default_factory=list, description="files below the run's folder")


class TcpSample(Record):
    """The flow at one moment of the measured seconds."""

    at_s: float = Field(description="seconds after measuring began")
    rtt_us: int | None = None
    snd_cwnd: int | None = None
    snd_wnd: int | None = None
    retrans: int | None = None
    delivery_rate: int | None = Field(None, description="bytes a second")


class Noise(Record):
    cpu_pressure: float | None = Field(
        None, description="percent of the round in which a task waited for a CPU (PSI some)"
    )
    steal: float | None = Field(None, description="percent of all CPU time taken by the hypervisor")
    foreign: float | None = Field(
        None, description="CPU used by processes that are not the testbed's, percent of one core"
    )


class Round(Record):
    """One measurement of one state: a line of rounds.jsonl."""

    round: int = Field(description="0-based, in order of execution")
    block: int
    position: int
    state: str
    kernel: str
    boot: int = Field(0, description="which boot of the run, where a run boots kernels")
    warmup: bool = False
    valid: bool = True
    reason: str | None = None
    started: str
    ended: str
    measured_s: float = 0.0
    wall_s: float = 0.0
    settings: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="node:device -> held values"
    )
    workload: Workload | None = None
    packet_sizes: list[PacketSize] = Field(default_factory=list)
    packet_sizes_meta: PacketSizesMeta = Field(default_factory=lambda: PacketSizesMeta())
    counters: dict[str, Counters] = Field(default_factory=dict)
    counters_match: bool | None = None
    cpu: Cpu | None = None
    tcp: Tcp | None = None
    noise: Noise | None = None
    netstat: dict[str, dict[str, int]] = Field(
        default_factory=dict, description="node -> counters of /proc/net/snmp and netstat that moved"
    )
    softnet: Softnet | None = None
    stacks: list[Stack] = Field(default_factory=list)
    profile: Profile | None = None
    kernel_log: list[str] = Field(default_factory=list)
    kernel_faults: list[str] = Field(
        default_factory=list, description="`rule: line` for a WARN, BUG, oops, lockup... of the round"
    )
    taint: str | None = Field(None, description="the kernel's taint letters after the round")


class Patch(Record):
    sha256: str
    subject: str


class Kernel(Record):
    release: str
    version: str
    config_sha256: str | None = None
    cmdline: str = ""
    series: list[Patch] = Field(default_factory=list)
    build_id: str | None = None
    accelerator: str | None = Field(
        None, description="what a VM of the run ran it with (kvm, tcg); None on the machine itself"
    )


class Machine(Record):
    cpu_model: str = ""
    cores: int = 0
    memory_bytes: int = 0
    virtualisation: str | None = None
    governor: str | None = None
    smt: bool | None = None


Status = Literal["running", "complete", "interrupted", "failed"]


class Run(Record):
    """run.json: rewritten atomically when the run starts, changes its status, and ends."""

    schema_: int = Field(SCHEMA, alias="schema", serialization_alias="schema")
    run_id: str
    experiment: dict[str, Any] = Field(description="the resolved experiment")
    topology: dict[str, Any] = Field(description="the resolved topology")
    status: Status
    started: str
    finished: str | None = None
    seed: int
    argv: list[str] = Field(default_factory=list)
    machine: Machine = Field(default_factory=Machine)
    kernels: dict[str, Kernel] = Field(default_factory=dict)
    boots: int = Field(1, description="of each kernel, where the run boots kernels")
    tools: dict[str, str] = Field(default_factory=dict)
    states: dict[str, dict[str, Any]] = Field(default_factory=dict, description="name -> the resolved state")
    skipped: dict[str, str] = Field(default_factory=dict, description="state -> why it was not run")


def state_label(state: str, kernel: str, kernels: int) -> str:
    """What a run and its reports call a state: `state@kernel` where the run has several `kernels`."""
    return f"{state}@{kernel}" if kernels > 1 else state
