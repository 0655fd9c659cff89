"""What watching costs: the whole of the evidence, and other ways to see packet sizes, against none.

Two kinds of flow over a veth pair: 1514-byte packets by software segmentation
(the worst case), and packets of up to 524280 bytes. Flows differ from each other
far more than what is to be seen, so the observers take turns within a flow: a
block is a short slice of each in random order, one of them unobserved, and each
observer is compared with the unobserved slice of its block. Both ends are on one
CPU, so that what an observer takes is missing from the flow. The tools of others
take seconds to attach and join in one block of each flow only.

A packet here crosses the pair once, and an observer sees it twice (transmit at
one end, receive at the other). Its CPU is what client and server used, softirqs
included, and what the observer's own processes used.
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
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from testbed.errors import MissingCapability, TestbedError
from testbed.evidence.collector import Collector
from testbed.evidence.collectors import collectors_for, size_source
from testbed.evidence.processes import family, in_namespaces, tasks
from testbed.evidence.sizes import SizeSource
from testbed.evidence.spec import CollectorName, CollectSpec
from testbed.topology.lab import Lab, open_lab
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
# What the issue allows for the whole of the evidence.
MOST_CPU_US = 0.35
LEAST_THROUGHPUT = 0.99
SETTLE_S = 0.03  # from attaching to the slice

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


@dataclass(frozen=True)
class Plan:
    """How much to measure: flows a case, seconds of a flow and of a slice."""

    flows: int
    seconds: int
    slice_s: float


@dataclass
class Observers:
    """The ways to watch that this machine has, by name; `slow` ones take seconds to attach."""

    quick: dict[str, Watch] = field(default_factory=dict)
    slow: dict[str, Watch] = field(default_factory=dict)
    held: list[Collector | SizeSource] = field(default_factory=list)

    def close(self) -> None:
        for one in self.held:
            one.close()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--flows", type=int, default=8, help="flows in each case")
    arguments.add_argument("--seconds", type=int, default=22, help="of a flow")
    arguments.add_argument("--slice", type=float, default=0.5, help="seconds")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    random.seed(options.seed)
    plan = Plan(options.flows, options.seconds, options.slice)
    with closing(available()) as observers:
        names = [*observers.quick, *observers.slow]
        good = [report(case, measure(case, observers, plan), names) for case in CASES]
    return 0 if all(good) else 1


# A block: the slices of some observers and the unobserved one.
Block = dict[str, Slice]


def measure(case: str, observers: Observers, plan: Plan) -> list[Block]:
    """Blocks of slices from several flows."""
    blocks: list[Block] = []
    for number in range(plan.flows):
        print(f"{case}: flow {number + 1} of {plan.flows}", file=sys.stderr, flush=True)
        with flow(case, plan.seconds) as (lab, until):
            ways = observers.quick | observers.slow
            while time.monotonic() + patience(ways, plan) < until:
                with suppress(StandsStill):
                    blocks.append(block(lab, {"nothing": nothing, **ways}, plan.slice_s))
                ways = observers.quick
    if not blocks:
        raise StandsStill(f"{case}: no block without a slice in which nothing flowed")
    return blocks


def patience(ways: dict[str, Watch], plan: Plan) -> float:
    """Seconds that a block of these may take."""
    return sum(plan.slice_s + TOOLS_OF_OTHERS.get(name, ([], 0.0))[1] + 0.2 for name in ["nothing", *ways])


def block(lab: Lab, ways: dict[str, Watch], seconds: float) -> Block:
    """A slice of each, in random order."""
    found = {}
    for name in random.sample(list(ways), len(ways)):
        with ways[name](lab):
            time.sleep(SETTLE_S)
            found[name] = measured_slice(lab, seconds)
    return found


def measured_slice(lab: Lab, seconds: float) -> Slice:
    """What flows and what it costs in the next `seconds`."""
    namespaces = [node.netns for node in lab.nodes.values() if node.netns is not None]
    ours = in_namespaces(namespaces, family(os.getpid(), tasks()) - {os.getpid()})
    began, before, used = time.monotonic(), lab.counters(), cpu_seconds(ours)
    time.sleep(seconds)
    ended, after, used_after = time.monotonic(), lab.counters(), cpu_seconds(ours)
    packets = sum(after[place].tx_packets - before[place].tx_packets for place in after)
    octets = after["server:veth0"].rx_bytes - before["server:veth0"].rx_bytes
    if packets <= 0:
        raise StandsStill("iperf3: nothing flowed")
    took = ended - began
    return Slice(8 * octets / took, packets / took, 1e6 * (used_after - used) / packets)


def cpu_seconds(pids: list[int]) -> float:
    """CPU seconds of these processes and of this one so far, to the nanosecond."""
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


def report(case: str, blocks: list[Block], names: list[str]) -> bool:
    """Print the case's figures; whether the whole of the evidence costs no more than allowed."""
    rate = fmean(one["nothing"].packets_per_second for one in blocks)
    print(f"{case}: {rate / 1e3:.0f} thousand packets a second unobserved", file=sys.stderr)
    good = True
    for name in names:
        pairs = [(one["nothing"], one[name]) for one in blocks if name in one]
        if not pairs:
            continue
        throughput = ratio(f"{case}, {name} / throughput unobserved", pairs, lambda one: one.bits_per_second)
        ratio(f"{case}, {name} / CPU a packet unobserved", pairs, lambda one: one.cpu_us)
        added, low, high = middle([watched.cpu_us - alone.cpu_us for alone, watched in pairs])
        print(f"{case}, {name}, CPU added a packet: {added:.3f} us [{low:.3f}, {high:.3f}]", flush=True)
        if name == "all evidence":
            cheap = added <= MOST_CPU_US if case == WORST else throughput >= LEAST_THROUGHPUT
            good = good and cheap
    return good


def ratio(title: str, pairs: list[tuple[Slice, Slice]], value: Callable[[Slice], float]) -> float:
    """Print the median ratio of the pairs with its interval; the ratio."""
    effect, low, high = middle([value(watched) / value(alone) for alone, watched in pairs])
    print(f"{title}: {effect:.3f}x [{low:.3f}, {high:.3f}]")
    return effect


def middle(values: list[float]) -> tuple[float, float, float]:
    """Median with its 95% interval by order statistics, which has no end below six values.

    A slice in which the machine did something else is no part of what is asked.
    """
    ranked, count = sorted(values), len(values)
    if count < 6:
        return median(ranked), -math.inf, math.inf
    low = math.floor(count / 2 - 0.98 * math.sqrt(count))
    high = math.ceil(count / 2 + 1 + 0.98 * math.sqrt(count))
    return median(ranked), ranked[max(low, 1) - 1], ranked[min(high, count) - 1]


def available() -> Observers:
    """Every observer that this machine can run."""
    found = Observers()
    asked: dict[str, tuple[CollectorName, bool]] = {
        "all evidence": ("auto", True),
        "packet sizes by bpf": ("bpf", False),
        "packet sizes by af_packet": ("af_packet", False),
    }
    for name, (collector, whole) in asked.items():
        try:
            source, _ = size_source(collector)
        except MissingCapability as error:
            print(f"without {name}: {error}", file=sys.stderr)
            continue
        assert source is not None  # only "none" has none
        others = beside_sizes() if whole else []
        found.held += [source, *others]
        found.quick[name] = _collecting(source, others)
    for tool, (argv, attach_s) in TOOLS_OF_OTHERS.items():
        if shutil.which(tool):
            found.slow[tool] = _running(tool, argv, attach_s)
        else:
            print(f"without {tool}: not installed", file=sys.stderr)
    return found


def beside_sizes() -> list[Collector]:
    """The default collectors but that of packet sizes, which waits for silence: its source is used alone."""
    sizes, *others = collectors_for(CollectSpec(collector="none"))
    sizes.close()
    return others


@contextmanager
def nothing(lab: Lab) -> Iterator[None]:
    yield


def _collecting(source: SizeSource, others: list[Collector]) -> Watch:
    @contextmanager
    def watching(lab: Lab) -> Iterator[None]:
        source.start(lab)
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
