"""What watching costs: the whole of the evidence, and other ways to see packet sizes, against none.

Two flows over a veth pair, one turn of each observer in random order, again and
again: 1514-byte packets by software segmentation (the worst case), and packets
of up to 524280 bytes. Both ends are on one CPU, so that what an observer takes
is missing from the flow, and a CPU second is one of the flow's.

A packet here crosses the pair once, and an observer sees it twice (transmit at
one end, receive at the other). Its CPU is what client and server used, softirqs
included, and what the observer's own processes used.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from testbed.errors import MissingCapability, TestbedError
from testbed.evidence.collector import Collector
from testbed.evidence.collectors import collectors_for
from testbed.evidence.spec import CollectSpec
from testbed.stats.compare import compare_pairs
from testbed.stats.summary import t_interval
from testbed.topology.lab import Lab, open_lab
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.tool import Hooks

CPU = 1
FLOW = {"tool": "iperf3", "from": "client", "to": "server", "length": "500K", "congestion": "cubic"}
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "1514-byte packets": {"client:veth0": {"features": {"tso": False, "gso": False}}},
    "524280-byte packets": {"*:veth0": {"gso_max_size": 524280, "gro_max_size": 524280}},
}
WORST, LARGE = CASES
# What the issue allows for the whole of the evidence.
MOST_CPU_US = 0.35
LEAST_THROUGHPUT = 0.99

BPFTRACE = (
    "tracepoint:net:netif_receive_skb { @rx[args->len] = count(); } "
    "tracepoint:net:net_dev_start_xmit { @tx[args->len] = count(); }"
)

# A context around a flow in a lab; it gives what to call when the measured seconds begin.
Watch = Callable[[Lab], AbstractContextManager[Callable[[], None]]]


@dataclass(frozen=True)
class Turn:
    """One flow. `cpu_us`: microseconds of CPU for each packet."""

    rate: float
    cpu_us: float


@dataclass
class Observers:
    """The ways to watch that this machine has, by name."""

    ways: dict[str, Watch] = field(default_factory=dict)
    collectors: list[Collector] = field(default_factory=list)

    def close(self) -> None:
        for collector in self.collectors:
            collector.close()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--turns", type=int, default=12, help="turns of each observer in each case")
    arguments.add_argument("--seconds", type=float, default=1)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    random.seed(options.seed)
    observers = available()
    try:
        good = [measure(case, observers, options.turns, options.seconds) for case in CASES]
    finally:
        observers.close()
    return 0 if all(good) else 1


def measure(case: str, observers: Observers, turns: int, seconds: float) -> bool:
    """Print the case's figures; whether the whole of the evidence costs no more than allowed."""
    taken: dict[str, list[Turn]] = {name: [] for name in observers.ways}
    for number in range(turns):
        print(f"{case}: turn {number + 1} of {turns}", file=sys.stderr, flush=True)
        for name in random.sample(list(taken), len(taken)):
            taken[name].append(flow(case, observers.ways[name], seconds))
    nothing = taken.pop("nothing")
    good = True
    for name, watched in taken.items():
        rates = compare_pairs([turn.rate for turn in nothing], [turn.rate for turn in watched])
        low, high = rates.ci95 or (0.0, 0.0)
        print(f"{case}, {name} / throughput unobserved: {rates.effect:.3f}x [{low:.3f}, {high:.3f}]")
        spent = compare_pairs([turn.cpu_us for turn in nothing], [turn.cpu_us for turn in watched])
        low, high = spent.ci95 or (0.0, 0.0)
        print(f"{case}, {name} / CPU a packet unobserved: {spent.effect:.3f}x [{low:.3f}, {high:.3f}]")
        added = [w.cpu_us - n.cpu_us for n, w in zip(nothing, watched, strict=True)]
        low, high = t_interval(n=len(added), mean=fmean(added), sd=stdev(added))
        print(
            f"{case}, {name}, CPU added a packet: {fmean(added):.3f} us [{low:.3f}, {high:.3f}]", flush=True
        )
        if name == "all evidence":
            cheap = fmean(added) <= MOST_CPU_US if case == WORST else (rates.effect or 0) >= LEAST_THROUGHPUT
            good = good and cheap
    return good


def flow(case: str, watching: Watch, seconds: float) -> Turn:
    """One iperf3 flow, watched."""
    options = parse_options({**FLOW, "duration": seconds})
    with open_lab("veth-pair") as lab, tempfile.TemporaryDirectory() as raw:
        lab.set(CASES[case])
        with watching(lab) as measuring:
            before, own = lab.counters(), own_seconds()
            outcome = TOOLS["iperf3"].run(
                lab,
                options,
                cpus={"client": [CPU], "server": [CPU]},
                hooks=Hooks(measuring=measuring),
                raw=Path(raw),
                raw_name="x",
            )
            own_s = own_seconds() - own
            after = lab.counters()
    if outcome.reason or not outcome.workload.bits_per_second:
        raise TestbedError(f"iperf3: {outcome.reason}")
    packets = sum(after[place].tx_packets - before[place].tx_packets for place in after)
    used = sum(process.user_s + process.system_s for process in outcome.processes.values())
    return Turn(outcome.workload.bits_per_second, 1e6 * (used + own_s) / packets)


def own_seconds() -> float:
    """CPU seconds of this process: of the collectors, beside a constant for running iperf3."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def available() -> Observers:
    """Every observer that this machine can run."""
    found = Observers({"nothing": nothing})
    for name, spec in {
        "all evidence": CollectSpec(),
        "packet sizes by bpf": _only(collector="bpf"),
        "packet sizes by af_packet": _only(collector="af_packet"),
    }.items():
        try:
            collectors = collectors_for(spec)
        except MissingCapability as error:
            print(f"without {name}: {error}", file=sys.stderr)
            continue
        found.collectors += collectors
        found.ways[name] = _collecting(collectors)
    for tool, argv in {
        "tcpdump": ["tcpdump", "-i", "any", "-s", "96", "-w", "/dev/null"],
        "bpftrace": ["bpftrace", "-e", BPFTRACE],
    }.items():
        if shutil.which(tool):
            found.ways[tool] = _running(tool, argv)
        else:
            print(f"without {tool}: not installed", file=sys.stderr)
    return found


def _only(**options: str) -> CollectSpec:
    off = dict.fromkeys(("cpu", "tcp", "stack", "kernel_log", "noise"), False)
    return CollectSpec.model_validate({**off, **options})


@contextmanager
def nothing(lab: Lab) -> Iterator[Callable[[], None]]:
    yield lambda: None


def _collecting(collectors: list[Collector]) -> Watch:
    @contextmanager
    def watching(lab: Lab) -> Iterator[Callable[[], None]]:
        for collector in collectors:
            collector.start(lab)
        yield lambda: _measuring(collectors)
        for collector in reversed(collectors):
            collector.stop()

    return watching


def _measuring(collectors: list[Collector]) -> None:
    for collector in collectors:
        collector.measuring()


def _running(tool: str, argv: list[str]) -> Watch:
    """The command in each node (tcpdump) or once for the kernel (bpftrace), once it says that it is ready."""

    @contextmanager
    def watching(lab: Lab) -> Iterator[Callable[[], None]]:
        nodes = lab.nodes.values() if tool == "tcpdump" else [lab.nodes["client"]]
        running = [
            node.start(argv, role=tool, stderr=subprocess.PIPE, stdout=subprocess.PIPE) for node in nodes
        ]
        time.sleep(0.5 if tool == "tcpdump" else 4.0)
        yield lambda: None
        for process in running:
            os.kill(process.pid, signal.SIGINT)
        for process in running:
            process.wait(10)

    return watching


if __name__ == "__main__":
    sys.exit(main())
