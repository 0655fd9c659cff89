"""Whether our workers measure what the tools' own commands measure, and whether 300 runs leave a trace.

Throughput: `iperf3` and `netperf` as commands, and through the testbed, with the
same options on the same CPU in the same namespaces, in turn in random order, a
second each. A figure is the ratio ours/theirs in the same turn, as geometric mean
with its 95% t interval; turns go on until that reaches 1% to either side, or the
time is over. Both ends run on one CPU and every packet is one segment: slow, but
far steadier than large packets between two CPUs, whose throughput has two modes.
Beside the throughput, which has to be the same within 2%, stands the CPU time of
both ends a byte: other work on the machine takes throughput from a flow, but
hardly changes what a byte costs.

Leaks: 300 runs of the three tools in one process, each in a fresh lab.
Descriptors, child processes and resident memory after them, against the time
when 30 had warmed everything up.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import psutil

from testbed.errors import TestbedError
from testbed.lab.lab import Lab, open_lab
from testbed.nodes.node import Ended, Process
from testbed.stats.compare import Comparison, compare_pairs
from testbed.topology.spec import Topology
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.iperf3 import Iperf3Options
from testbed.workloads.iperf3 import client_options as iperf3_client
from testbed.workloads.iperf3 import server_options as iperf3_server
from testbed.workloads.listening import listens
from testbed.workloads.netperf_options import NetperfOptions
from testbed.workloads.netperf_options import client_options as netperf_client
from testbed.workloads.netperf_options import server_options as netperf_server
from testbed.workloads.netperf_result import parse_keys
from testbed.workloads.tool import Hooks, Options, Outcome

ENDS = {"from": "client", "to": "server", "client_port": None, "duration": 1}
CPU = 1
CPUS = {"client": [CPU], "server": [CPU]}
SEGMENTS = {"tso": False, "gso": False, "gro": False}
LINK = Topology.model_validate(
    {
        "nodes": {
            "client": {
                "devices": {
                    "veth0": {
                        "kind": "veth",
                        "peer": "server:veth0",
                        "addresses": ["fd01::1/64"],
                        "features": SEGMENTS,
                    }
                }
            },
            "server": {"devices": {"veth0": {"addresses": ["fd01::2/64"], "features": SEGMENTS}}},
        }
    }
)
WARM_UP, RUNS = 30, 300
WITHIN = 0.02  # what a throughput may differ by
NARROW = 0.01  # how far its interval has to reach at most
FEWEST = 8


@dataclass(frozen=True)
class Slice:
    """What one flow of a second gave."""

    bits_per_second: float
    bytes: int
    cpu_s: float

    @property
    def cpu_per_byte(self) -> float:
        return self.cpu_s / self.bytes


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=int, default=150, help="the longest that a comparison may take")
    arguments.add_argument("--runs", type=int, default=RUNS, help="runs of the leak test, 0 for none")
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    random.seed(given.seed)
    iperf3: dict[str, object] = {**ENDS, "tool": "iperf3", "length": "128K"}
    netperf: dict[str, object] = {**ENDS, "tool": "netperf", "length": "128K"}
    good = [
        same_figures("iperf3", iperf3, command_iperf3, given.seconds),
        same_figures("netperf", netperf, command_netperf, given.seconds),
        # Both must hold a rate that neither is busy with: whether they count bytes and seconds alike.
        same_figures(
            "iperf3 at 300 Mbit/s", {**iperf3, "bitrate": "300M"}, command_iperf3, given.seconds // 5
        ),
    ]
    if given.runs:
        good.append(nothing_left(given.runs))
    return 0 if all(good) else 1


def same_figures(
    what: str, given: dict[str, object], command: Callable[[Lab, Options], Slice], seconds: int
) -> bool:
    """Print ours/theirs; whether the interval of the throughput is within 2% of 1."""
    options = parse_options(given)
    ways = {"ours": lambda lab: ours(lab, options), "theirs": lambda lab: command(lab, options)}
    slices: dict[str, list[Slice]] = {way: [] for way in ways}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            turn = [(way, _slice(ways[way])) for way in random.sample(list(ways), len(ways))]
        except TestbedError as error:
            print(f"{error}: the turn does not count", file=sys.stderr)
            continue
        for way, one in turn:
            slices[way].append(one)
        rates = _compared(slices, attrgetter("bits_per_second"))
        if rates.pairs >= FEWEST and _reach(rates) <= NARROW:
            break
    _print(f"{what}: throughput through the testbed / by the command", rates)
    if "bitrate" not in given:  # of a flow that mostly waits, what its processes' start costs is a good part
        _print(f"{what}: CPU time a byte, likewise", _compared(slices, attrgetter("cpu_per_byte")))
    low, high = rates.ci95 or (0.0, 0.0)
    return low >= 1 - WITHIN and high <= 1 + WITHIN


def _slice(measure: Callable[[Lab], Slice]) -> Slice:
    with open_lab(LINK) as lab:
        return measure(lab)


def _compared(slices: dict[str, list[Slice]], figure: Callable[[Slice], float]) -> Comparison:
    return compare_pairs([figure(one) for one in slices["theirs"]], [figure(one) for one in slices["ours"]])


def _print(what: str, compared: Comparison) -> None:
    low, high = compared.ci95 or (0.0, 0.0)
    print(f"{compared.pairs} turns, spread {compared.spread or 0:.1%}", file=sys.stderr)
    print(f"{what}: {compared.effect or 0:.3f}x [{low:.3f}, {high:.3f}]", flush=True)


def _reach(compared: Comparison) -> float:
    """How far the interval reaches from its centre, as a fraction."""
    if compared.ci95 is None or compared.effect is None:
        return 1.0
    return max(compared.ci95[1] / compared.effect, compared.effect / compared.ci95[0]) - 1


def ours(lab: Lab, options: Options) -> Slice:
    outcome = run(lab, options)
    workload = outcome.workload
    if outcome.reason or not workload.bits_per_second or not workload.bytes:
        raise TestbedError(f"{options.tool}: {outcome.reason}")
    cpu_s = sum(use.user_s + use.system_s for use in outcome.processes.values())
    return Slice(workload.bits_per_second, workload.bytes, cpu_s)


def run(lab: Lab, options: Options) -> Outcome:
    with tempfile.TemporaryDirectory() as raw:
        hooks = Hooks(measuring=lambda: None)
        return TOOLS[options.tool].run(lab, options, cpus=CPUS, hooks=hooks, raw=Path(raw), raw_name="x")


def command_iperf3(lab: Lab, options: Options) -> Slice:
    assert isinstance(options, Iperf3Options)
    server, client = ["iperf3", *iperf3_server(options)], ["iperf3", *iperf3_client(options, "fd01::2")]
    output, cpu_s = command(lab, server, client, options.port)
    received = json.loads(output)["end"]["sum_received"]
    return Slice(float(received["bits_per_second"]), int(received["bytes"]), cpu_s)


def command_netperf(lab: Lab, options: Options) -> Slice:
    assert isinstance(options, NetperfOptions)
    server, client = ["netserver", *netperf_server(options)], ["netperf", *netperf_client(options, "fd01::2")]
    output, cpu_s = command(lab, server, client, options.control_port)
    values = parse_keys(output)
    return Slice(float(values["THROUGHPUT"]) * 1e6, int(values["REMOTE_BYTES_RECVD"]), cpu_s)


def command(lab: Lab, server: Sequence[str], client: Sequence[str], port: int) -> tuple[bytes, float]:
    """What the client's command prints, and the CPU seconds of both."""
    node = lab.nodes["server"]
    serving = node.start(server, role="server", cpus=[CPU], stdout=subprocess.DEVNULL)
    while not node.call(listens, serving.pid, port):
        time.sleep(0.001)
    asking = lab.nodes["client"].start(client, role="client", cpus=[CPU], stdout=subprocess.PIPE)
    assert asking.stdout is not None
    with asking.stdout as stream:
        output = stream.read()
    ends = [asking.wait(10), _ended(serving)]
    return output, sum(end.user_s + end.system_s for end in ends)


def _ended(server: Process) -> Ended:
    """iperf3's server serves one test and ends; netserver has to be ended."""
    try:
        return server.wait(0.1)
    except TimeoutError:
        return server.kill()


def nothing_left(runs: int) -> bool:
    """Print what `runs` runs leave; whether it is nothing."""
    # A flow of iperf3 or netperf takes a second at least: most runs are of the one that takes less.
    brief = {**ENDS, "tool": "zerocopy", "duration": 0.2}
    tools = ({**ENDS, "tool": "iperf3"}, {**ENDS, "tool": "netperf"}, brief, brief, brief)
    process = psutil.Process()
    before = (0, 0, 0)
    for number in range(runs):
        if number == min(WARM_UP, runs // 2):
            before = _held(process)
        with open_lab("veth-pair") as lab:
            ours(lab, parse_options(tools[number % len(tools)]))
        if number % 30 == 29:
            print(f"run {number + 1} of {runs}", file=sys.stderr, flush=True)
    after = _held(process)
    for what, earlier, later in zip(
        ("descriptors", "processes", "KiB of memory"), before, after, strict=True
    ):
        print(f"{what} after {runs} runs / after {WARM_UP}: {later} / {earlier}")
    grown = after[2] / before[2]
    print(f"memory after {runs} runs: {grown:.3f}x [{grown:.3f}, {grown:.3f}]", flush=True)
    return after[:2] == before[:2] and after[2] - before[2] < 1024


def _held(process: psutil.Process) -> tuple[int, int, int]:
    return (
        len(list(Path("/proc/self/fd").iterdir())),
        len(process.children(recursive=True)),
        process.memory_info().rss >> 10,
    )


if __name__ == "__main__":
    sys.exit(main())
