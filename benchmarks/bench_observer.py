"""What watching costs: the whole of the evidence, and other ways to see packet sizes, against none.

Two kinds of flow over a veth pair: 1514-byte packets by software segmentation
(the worst case), and packets of up to 524280 bytes. Flows differ from each other
far more than what is to be seen, so the observers take turns within a flow, in
random order, and each slice of an observed flow is compared with the mean of the
two unobserved ones around it: what drifts evenly falls out. The differences of
slices of 0.05 s spread as those of slices of 0.8 s do, so many short ones decide
most; they are just long enough for one look of the samplers. Both ends are on one
CPU, so that what an observer takes is missing from the flow. The whole of the
evidence is in each block, its parts in some; the tools of others, which take
seconds to attach, join in the first block of each flow.

A packet here crosses the pair once, and an observer sees it twice (transmit at
one end, receive at the other). Its CPU is what client and server used, softirqs
included (and ksoftirqd, where they are put off), and what the observer's own
processes used. It is read from the scheduler's clock, which leaves out what other
processes took; on a kernel with CONFIG_IRQ_TIME_ACCOUNTING it leaves out softirqs.

At the end of each flow the kernel's statistics of BPF programs are on for a
moment: what a call takes for a packet that is counted and for one of a namespace
that is not watched. They are exact to a few nanoseconds on a busy machine too,
but leave out the way into the program.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import astuple, dataclass, field
from itertools import count
from pathlib import Path
from statistics import fmean, median
from typing import Any

from testbed.errors import MissingCapability, TestbedError
from testbed.evidence.bpf_sizes import BpfSizes
from testbed.evidence.collect import CollectorName, CollectSpec
from testbed.evidence.collector import Collector
from testbed.evidence.collectors import collectors_for, size_source
from testbed.evidence.libbpf import run_statistics
from testbed.evidence.processes import descendants, in_namespaces, tasks
from testbed.evidence.sampling import INTERVAL_S, SEARCH_EVERY, Sampler
from testbed.evidence.sizes import SizeSource
from testbed.lab.lab import Lab, open_lab
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.tool import Hooks, Outcome

CPU = 1
FLOW = {
    "tool": "iperf3",
    "from": "client",
    "to": "server",
    "length": "500K",
    "congestion": "cubic",
    "omit": 1,
}
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "1514-byte packets": {"client:veth0": {"features": {"tso": False, "gso": False}}},
    "524280-byte packets": {"*:veth0": {"gso_max_size": 524280, "gro_max_size": 524280}},
}
WORST, LARGE = CASES
WHOLE = "all evidence"
# What the whole of the evidence may cost.
MOST_CPU_US = 0.35
LEAST_THROUGHPUT = 0.99
SETTLE_S = 0.03  # from attaching to the slice
SLICE_S = INTERVAL_S  # one look of each sampler
PARTS_EVERY = 4  # blocks from one with the parts of the evidence to the next
STATISTICS_S = 0.25

BPFTRACE = (
    "tracepoint:net:netif_receive_skb { @rx[args->len] = count(); } "
    "tracepoint:net:net_dev_start_xmit { @tx[args->len] = count(); }"
)
TOOLS_OF_OTHERS = {
    "tcpdump": (["tcpdump", "-i", "any", "-s", "96", "-w", "/dev/null"], 0.5),
    "bpftrace": (["bpftrace", "-e", BPFTRACE], 4.0),
}

# A context around a slice of a flow in a lab.
Watch = Callable[[Lab], AbstractContextManager[None]]


@dataclass(frozen=True)
class Slice:
    """A part of a flow. `cpu_us`: microseconds of CPU for each packet."""

    bits_per_second: float
    packets_per_second: float
    cpu_us: float


class StandsStill(TestbedError):
    """No packet crossed in a slice: the machine did something else."""


@dataclass
class Observers:
    """The ways to watch that this machine has, by name."""

    whole: dict[str, Watch] = field(default_factory=dict)
    parts: dict[str, Watch] = field(default_factory=dict)
    others: dict[str, Watch] = field(default_factory=dict)
    bpf: BpfSizes | None = None
    held: list[Collector | SizeSource] = field(default_factory=list)

    def of_block(self, turn: int) -> dict[str, Watch]:
        """Those that take a turn in this block of a flow."""
        parts = self.parts if turn % PARTS_EVERY == 0 else {}
        return self.whole | parts | (self.others if turn == 0 else {})

    def close(self) -> None:
        for one in self.held:
            one.close()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--flows", type=int, default=8, help="flows in each case")
    arguments.add_argument("--seconds", type=int, default=30, help="of a flow")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    random.seed(options.seed)
    with closing(available()) as observers:
        good = [report(case, measure(case, observers, options.flows, options.seconds)) for case in CASES]
    return 0 if all(good) else 1


Pair = tuple[Slice, Slice]  # without an observer and with it


@dataclass
class Found:
    """What the flows of a case gave. `calls`: nanoseconds of a call, by program and kind of packets."""

    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    calls: dict[str, list[float]] = field(default_factory=dict)


def measure(case: str, observers: Observers, flows: int, seconds: int) -> Found:
    """Slices from several flows. One that does not come about on a busy machine is passed over."""
    found = Found()
    for number in range(flows):
        print(f"{case}: flow {number + 1} of {flows}", file=sys.stderr, flush=True)
        try:
            watch_flow(case, seconds, observers, found)
        except TestbedError as error:
            print(f"{case}: passed over: {error}", file=sys.stderr)
    if not found.pairs:
        raise StandsStill(f"{case}: no block without a slice in which nothing flowed")
    return found


def watch_flow(case: str, seconds: int, observers: Observers, found: Found) -> None:
    """Blocks as long as the flow lasts, and then what the calls take."""
    with flow(case, seconds) as (lab, until):
        for turn in count():
            ways = observers.of_block(turn)
            if time.monotonic() + patience(ways) > until:
                break
            with suppress(StandsStill):
                block(lab, ways, found)
        if observers.bpf:
            note_calls(lab, observers.bpf, found)


def patience(ways: dict[str, Watch]) -> float:
    """Seconds that a block of these and the calls at the end may take."""
    attaching = sum(0.2 + TOOLS_OF_OTHERS.get(name, ([], 0.0))[1] for name in ways)
    return attaching + SLICE_S * (1 + 2 * len(ways)) + 2 * STATISTICS_S + 0.5


def block(lab: Lab, ways: dict[str, Watch], found: Found) -> None:
    """A slice of each, in random order, before, between and after them an unobserved one."""
    before = measured_slice(lab, SLICE_S)
    for name in random.sample(list(ways), len(ways)):
        with ways[name](lab):
            time.sleep(SETTLE_S)
            watched = measured_slice(lab, SLICE_S)
        after = measured_slice(lab, SLICE_S)
        found.pairs.setdefault(name, []).append((between(before, after), watched))
        before = after


def between(one: Slice, other: Slice) -> Slice:
    """The mean of the two."""
    return Slice(*(fmean(pair) for pair in zip(astuple(one), astuple(other), strict=True)))


def note_calls(lab: Lab, source: BpfSizes, found: Found) -> None:
    """What a call of the programs takes, with the lab's packets counted and passed over."""
    for packets, namespaces in ("counted", inodes(lab)), ("of no watched namespace", []):
        source.watch(namespaces, queueing=False)
        with run_statistics():
            before = source.run_times()
            time.sleep(STATISTICS_S)
            after = source.run_times()
        source.stop()
        for program, (nanoseconds, calls) in after.items():
            if calls > before[program][1]:
                spent = (nanoseconds - before[program][0]) / (calls - before[program][1])
                found.calls.setdefault(f"{program}, packets {packets}", []).append(spent)


def measured_slice(lab: Lab, seconds: float) -> Slice:
    """What flows and what it costs in the next `seconds`."""
    ours = in_namespaces(inodes(lab), set(descendants(os.getpid())) - {os.getpid()})
    ours += [pid for pid, task in tasks().items() if task.name == f"ksoftirqd/{CPU}"]
    began, before, used = time.monotonic(), lab.counters(), cpu_seconds(ours)
    time.sleep(seconds)
    ended, after, used_after = time.monotonic(), lab.counters(), cpu_seconds(ours)
    packets = sum(after[place].tx_packets - before[place].tx_packets for place in after)
    octets = after["server:veth0"].rx_bytes - before["server:veth0"].rx_bytes
    if packets <= 0:
        raise StandsStill("iperf3: nothing flowed")
    took = ended - began
    return Slice(8 * octets / took, packets / took, 1e6 * (used_after - used) / packets)


def inodes(lab: Lab) -> list[int]:
    return [node.netns for node in lab.nodes.values() if node.netns is not None]


def cpu_seconds(pids: list[int]) -> float:
    """CPU seconds of these processes and of this one so far, by the scheduler's clock."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    others = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").iterdir():
            others += int((path / "schedstat").read_text().split()[0])
    return usage.ru_utime + usage.ru_stime + others / 1e9


@contextmanager
def flow(case: str, seconds: int) -> Iterator[tuple[Lab, float]]:
    """An iperf3 flow under way, and the time at which it ends (time.monotonic())."""
    options = parse_options({**FLOW, "duration": seconds})
    begun = threading.Event()
    outcomes: list[Outcome] = []
    with open_lab("veth-pair") as lab, tempfile.TemporaryDirectory() as raw:
        lab.set(CASES[case])

        def run() -> None:
            cpus = {"client": [CPU], "server": [CPU]}
            hooks = Hooks(measuring=begun.set)
            outcome = TOOLS["iperf3"].run(lab, options, cpus=cpus, hooks=hooks, raw=Path(raw), raw_name="x")
            outcomes.append(outcome)
            begun.set()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            begun.wait()
            if not outcomes:
                yield lab, time.monotonic() + seconds
        finally:
            thread.join()
    if not outcomes or outcomes[0].reason:
        raise TestbedError(f"iperf3: {outcomes[0].reason if outcomes else 'no outcome'}")


def report(case: str, found: Found) -> bool:
    """Print the case's figures; whether the whole of the evidence costs no more than allowed."""
    rate = fmean(alone.packets_per_second for pairs in found.pairs.values() for alone, _ in pairs)
    print(f"{case}: {rate / 1e3:.0f} thousand packets a second unobserved", file=sys.stderr)
    good = True
    for name, pairs in sorted(found.pairs.items()):
        throughput = ratio(f"{case}, {name} / throughput unobserved", pairs, lambda one: one.bits_per_second)
        ratio(f"{case}, {name} / CPU a packet unobserved", pairs, lambda one: one.cpu_us)
        added = middle([watched.cpu_us - alone.cpu_us for alone, watched in pairs])
        print(f"{case}, {name}, CPU added a packet: {told(added)} us ({len(pairs)} pairs)")
        if name == WHOLE:
            good = cheap_enough(case, throughput, added)
    for call, spent in found.calls.items():
        print(
            f"{case}, BPF program {call}: {told(middle(spent), '.0f')} ns a call, with a reading of the clock"
        )
    sys.stdout.flush()
    return good


def cheap_enough(case: str, throughput: Interval, added: Interval) -> bool:
    """Print whether the whole of the evidence costs no more than it may, and whether the interval decides."""
    if case == WORST:
        asked, kept = f"at most {MOST_CPU_US} us a packet", [us <= MOST_CPU_US for us in added]
    else:
        asked, kept = (
            f"at least {LEAST_THROUGHPUT} of the throughput",
            [x >= LEAST_THROUGHPUT for x in throughput],
        )
    doubt = "" if kept[1] == kept[2] else ", but the interval does not decide"
    print(f"{case}, {WHOLE}: {asked}: {'met' if kept[0] else 'missed'}{doubt}")
    return kept[0]


# A median and its interval's ends.
Interval = tuple[float, float, float]


def ratio(title: str, pairs: list[Pair], value: Callable[[Slice], float]) -> Interval:
    """Print the median ratio of the pairs with its interval, and return them."""
    effect = middle([value(watched) / value(alone) for alone, watched in pairs])
    print(f"{title}: {told(effect, '.3f', 'x')}")
    return effect


def told(found: Interval, form: str = ".3f", unit: str = "") -> str:
    value, low, high = (format(one, form) for one in found)
    return f"{value}{unit} [{low}, {high}]"


def middle(values: list[float]) -> Interval:
    """Median with its 95% interval by order statistics, which has no end below six values.

    A slice in which the machine did something else is no part of what is asked.
    """
    ranked, n = sorted(values), len(values)
    if n < 6:
        return median(ranked), -math.inf, math.inf
    low = math.floor(n / 2 - 0.98 * math.sqrt(n))
    high = math.ceil(n / 2 + 1 + 0.98 * math.sqrt(n))
    return median(ranked), ranked[max(low, 1) - 1], ranked[min(high, n) - 1]


def available() -> Observers:
    """Every observer that this machine can run."""
    found = Observers()
    asked: dict[str, tuple[CollectorName, dict[str, Watch], list[Collector]]] = {
        WHOLE: ("auto", found.whole, beside_sizes()),
        "packet sizes by bpf": ("bpf", found.parts, []),
        "packet sizes by af_packet": ("af_packet", found.parts, []),
    }
    for name, (collector, turn, others) in asked.items():
        found.held += others
        try:
            source, _ = size_source(collector)
        except MissingCapability as error:
            print(f"without {name}: {error}", file=sys.stderr)
            continue
        assert source is not None  # only "none" has none
        found.held.append(source)
        turn[name] = _collecting(source, others)
    with suppress(MissingCapability):
        found.bpf = BpfSizes()
        found.held.append(found.bpf)
    for tool, (argv, attach_s) in TOOLS_OF_OTHERS.items():
        if shutil.which(tool):
            found.others[tool] = _running(tool, argv, attach_s)
        else:
            print(f"without {tool}: not installed", file=sys.stderr)
    return found


def beside_sizes() -> list[Collector]:
    """The default collectors but that of packet sizes, which waits for silence: its source is used alone."""
    sizes, *others = collectors_for(CollectSpec(collector="none"))
    sizes.close()
    return others


def _collecting(source: SizeSource, others: list[Collector]) -> Watch:
    @contextmanager
    def watching(lab: Lab) -> Iterator[None]:
        source.start(lab)
        Sampler.first = random.randrange(SEARCH_EVERY)  # one slice in so many has a search in it
        for collector in others:
            collector.start(lab)
        for collector in others:
            collector.measuring()
        yield
        for collector in reversed(others):
            collector.stop()
        source.read()
        source.stop()

    return watching


def _running(tool: str, argv: list[str], attach_s: float) -> Watch:
    """The command in each node (tcpdump) or once for the kernel (bpftrace), with time to attach."""

    @contextmanager
    def watching(lab: Lab) -> Iterator[None]:
        nodes = lab.nodes.values() if tool == "tcpdump" else [lab.nodes["client"]]
        running = [
            node.start(argv, role=tool, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            for node in nodes
        ]
        time.sleep(attach_s)
        if any(process.poll() for process in running):
            raise TestbedError(f"{tool} ended by itself: {' '.join(argv)}")
        try:
            yield
        finally:
            for process in running:
                process.kill()  # bpftrace 0.17 does not always hear SIGINT

    return watching


if __name__ == "__main__":
    sys.exit(main())
