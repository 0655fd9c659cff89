"""Check the figures of a round's tools against its device and socket counters.

Payload that a tool received crossed a device of its node, headers and all: more
of it than the node's lowest devices counted cannot be. And what the sockets had
acknowledged was received: much more of that than the tools say cannot be either.
What decides is the room between the two, which no honest round leaves:

- The devices count the whole round, warm-up seconds included. Where there are
  any, they are read once more when these are over, a little later than the tool
  begins to count (its receiver by a timer of its own, we when we get the CPU).
- Acknowledged bytes may wait in the receiver's buffer when the tool stops, and
  the sender's go on to be sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from testbed import clocks
from testbed.clocks import Moment
from testbed.devices.links import KINDS
from testbed.errors import TestbedError
from testbed.evidence.counters import difference
from testbed.lab.lab import Lab
from testbed.nodes.sysctl_files import read_sysctl
from testbed.records.round import Agreement, ClockStep, Counters, Tcp
from testbed.topology.spec import Topology
from testbed.workloads.tool import Outcome

# A tool's seconds begin by its timer, ours when this program gets the CPU: as in workloads/contradictions.py.
_APART_S = 0.4
# TLS records and MPTCP's second copies are acknowledged bytes, too.
_BESIDE = 0.05


@dataclass(frozen=True)
class Traffic:
    """What devices and sockets say of a round.

    `received`: node -> what its lowest devices received in the whole round, `counted`
    the bytes of it since `counted_from` (time.monotonic()). `tcp`: the lab's sockets, in
    the seconds that count. `socket_holds`: the most bytes that wait at both ends of one.
    """

    received: Mapping[str, Counters]
    counted: Mapping[str, int] = field(default_factory=dict)
    counted_from: float = 0.0
    tcp: Tcp | None = None
    socket_holds: int = 0


def disagreements(outcome: Outcome, traffic: Traffic, *, has_warmup: bool, crosses: bool) -> list[str]:
    """Why figures of `outcome` cannot be true. `has_warmup`: its first seconds are excluded;
    `crosses`: all that was sent went from one node to another.
    """
    found = [
        *_limited_too_long(traffic.tcp),
        *_too_much(outcome, traffic, has_warmup),
        *_too_few_packets(outcome, traffic),
    ]
    return [*found, *_too_little(outcome, traffic)] if crosses else found


def compared(outcome: Outcome, traffic: Traffic, *, has_warmup: bool, crosses: bool) -> Agreement:
    """The same as figures. After warm-up seconds both sides are those of the seconds that count.

    The devices are read a little later than the tool began to count: what it received until then is left
    out by its rate, so that the ratio can come out a little above 1 where the rate varied.
    """
    late = 0.0
    if has_warmup and outcome.counts_from is not None and outcome.measured_s > 0:
        late = min(1.0, max(0.0, traffic.counted_from - outcome.counts_from) / outcome.measured_s)
    whole = {node: one.rx_bytes for node, one in traffic.received.items()}
    devices = traffic.counted if has_warmup else whole
    ratios = [
        octets * (1 - late) / devices[node] for node, octets in outcome.arrived.items() if devices.get(node)
    ]
    octets, tcp = sum(outcome.arrived.values()), traffic.tcp
    return Agreement(
        tool_over_devices=round(max(ratios), 6) if ratios else None,
        sockets_over_tool=round(tcp.acked_bytes / octets, 6)
        if crosses and octets and tcp and tcp.acked_bytes
        else None,
    )


def _too_much(outcome: Outcome, traffic: Traffic, has_warmup: bool) -> Iterator[str]:
    rounding = outcome.resolution_s / outcome.measured_s if outcome.measured_s > 0 else 0.0
    for node, octets in outcome.arrived.items():
        if node not in traffic.received:
            continue
        whole = traffic.received[node].rx_bytes
        if octets > whole * (1 + rounding):
            yield f"{node}: {octets} bytes arrived by the tool, its devices received {whole}"
        elif has_warmup and node in traffic.counted and outcome.counts_from is not None:
            late = max(0.0, traffic.counted_from - outcome.counts_from) + _APART_S
            least = octets * (1 - late / outcome.measured_s) - traffic.socket_holds
            if least > traffic.counted[node]:
                yield (
                    f"{node}: {octets} bytes arrived by the tool after the warm-up seconds, "
                    f"its devices received {traffic.counted[node]}"
                )


def _limited_too_long(tcp: Tcp | None) -> Iterator[str]:
    """A socket is limited by its peer's window, by its buffer, or by neither: never by both at once."""
    if tcp is None or tcp.busy_us is None:
        return
    limits = (tcp.rwnd_limited_us or 0) + (tcp.sndbuf_limited_us or 0)
    if limits > tcp.busy_us:
        yield f"TCP was held back by windows and buffers for {limits} us, and busy for {tcp.busy_us} us"


def _too_few_packets(outcome: Outcome, traffic: Traffic) -> Iterator[str]:
    for node, least in outcome.least_packets.items():
        if node in traffic.received and least > traffic.received[node].rx_packets:
            yield (
                f"{node}: {least} requests or responses arrived by the tool, "
                f"its devices received {traffic.received[node].rx_packets} packets"
            )


def _too_little(outcome: Outcome, traffic: Traffic) -> Iterator[str]:
    if traffic.tcp is None or not traffic.tcp.acked_bytes or not outcome.arrived:
        return
    octets = sum(outcome.arrived.values())
    apart = _APART_S / outcome.measured_s if outcome.measured_s > 0 else 0.0
    most = octets * (1 + _BESIDE + apart) + traffic.socket_holds * (traffic.tcp.sockets or 0)
    if traffic.tcp.acked_bytes > most:
        yield (
            f"{octets} bytes arrived by the tool, "
            f"{traffic.tcp.acked_bytes} were acknowledged to the senders' sockets in the same seconds"
        )


class Watch:
    """Collector: `clock_steps`, and what `traffic` is made from."""

    name = "agreement"

    def __init__(self, nodes: Collection[str], *, has_warmup: bool) -> None:
        """`nodes`: where the workload runs. `has_warmup`: its first seconds are excluded."""
        self._nodes = nodes
        self._has_warmup = has_warmup
        self._lab: Lab | None = None
        self._devices: dict[str, list[str]] = {}
        self._moments: list[Moment] = []
        self._counters: list[dict[str, Counters]] = []
        self._holds = 0

    def start(self, lab: Lab) -> None:
        self._lab = lab
        self._devices = lowest(lab.topology, self._nodes)
        self._holds = socket_holds(lab, self._nodes)
        self._look()

    def measuring(self) -> None:
        self._look()

    def stop(self) -> Mapping[str, Any]:
        self._moments.append(clocks.read())
        return {"clock_steps": steps(self._moments)}

    def close(self) -> None:
        pass

    def _look(self) -> None:
        assert self._lab is not None
        if self._has_warmup:
            self._counters.append(self._lab.counters())
        self._moments.append(clocks.read())

    def traffic(self, counters: Mapping[str, Counters], tcp: Tcp | None) -> Traffic:
        """What the round's `counters` and `tcp` say, as far as they are there."""
        whole = received(self._devices, counters)
        counted: dict[str, int] = {}
        if len(self._counters) == 2:  # it came as far as the seconds that count
            warmup = received(self._devices, difference(*self._counters))
            counted = {n: one.rx_bytes - warmup[n].rx_bytes for n, one in whole.items() if n in warmup}
        since = self._moments[1].monotonic if counted else 0.0
        return Traffic(whole, counted, since, tcp, self._holds)


def steps(moments: Sequence[Moment]) -> list[ClockStep]:
    """The steps of the wall clock between moments of a round, the first of which is its start."""
    return [
        ClockStep(at_s=round(after.monotonic - moments[0].monotonic, 3), by_s=round(step, 6))
        for before, after in pairwise(moments)
        if (step := after.step_since(before))
    ]


def lowest(topology: Topology, nodes: Collection[str]) -> dict[str, list[str]]:
    """Node -> the devices through which all comes that enters it: no tunnel, and none on top of another."""
    found: dict[str, list[str]] = {node: [] for node in nodes}
    for end, placed in topology.placed().items():
        kind, config = KINDS[placed.kind], placed.config
        # What a device stands on is said where its link is stated; the other end of a pair stands on nothing.
        upper = placed.stated_by == end and (kind.lowers(config) or kind.ports(config) or kind.tunnel(config))
        if end.node in found and not upper:
            found[end.node].append(str(end))
    return found


def received(devices: Mapping[str, Sequence[str]], counters: Mapping[str, Counters]) -> dict[str, Counters]:
    """Node -> what its `devices` received, where `counters` has them."""
    found = {}
    for node, places in devices.items():
        if counted := [counters[place] for place in places if place in counters]:
            found[node] = Counters(
                rx_packets=sum(one.rx_packets for one in counted),
                rx_bytes=sum(one.rx_bytes for one in counted),
            )
    return found


def socket_holds(lab: Lab, nodes: Collection[str]) -> int:
    """The most bytes that wait in the two buffers, to send and to receive, of a TCP connection of `nodes`."""
    largest = {"net.ipv4.tcp_rmem": 0, "net.ipv4.tcp_wmem": 0}
    for node in nodes:
        for name in largest:
            try:
                largest[name] = max(largest[name], int(lab.nodes[node].call(read_sysctl, name).split()[-1]))
            except TestbedError:
                continue  # a kernel without IPv4
    return sum(largest.values())
