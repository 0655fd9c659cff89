"""Whether our workers measure what the tools' own commands measure, and whether 300 runs leave a trace.

Throughput: `iperf3` and `netperf` as commands, and through the testbed, with the
same options on the same CPU in the same namespaces, in turn in random order. A
figure is the ratio ours/theirs in the same turn, as geometric mean with its 95%
t interval; turns go on until the interval is within 2% or the cap is reached.

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
from pathlib import Path

import psutil

from testbed.errors import TestbedError
from testbed.nodes.node import Process
from testbed.stats.compare import Comparison, compare_pairs
from testbed.topology.lab import Lab, open_lab
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
# Both ends on one CPU: slower than on two, and far steadier.
CPU = 1
CPUS = {"client": [CPU], "server": [CPU]}
WARM_UP, RUNS = 30, 300
WITHIN = 0.02
FEWEST = 8


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--cap", type=int, default=60, help="largest number of turns of a tool")
    arguments.add_argument("--runs", type=int, default=RUNS, help="runs of the leak test, 0 for none")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    random.seed(options.seed)
    good = [
        same_throughput("iperf3", {**ENDS, "tool": "iperf3", "length": "128K"}, command_iperf3, options.cap),
        same_throughput(
            "netperf", {**ENDS, "tool": "netperf", "length": "128K"}, command_netperf, options.cap
        ),
    ]
    if options.runs:
        good.append(nothing_left(options.runs))
    return 0 if all(good) else 1


def same_throughput(
    tool: str, given: dict[str, object], command: Callable[[Lab, Options], float], cap: int
) -> bool:
    """Print ours/theirs; whether the interval is within 2% of 1."""
    options = parse_options(given)
    ways = {"ours": lambda lab: ours(lab, options), "theirs": lambda lab: command(lab, options)}
    rates: dict[str, list[float]] = {way: [] for way in ways}
    compared = Comparison()
    for turn in range(cap):
        for way in random.sample(list(ways), len(ways)):
            with open_lab("veth-pair") as lab:
                rates[way].append(ways[way](lab))
        compared = compare_pairs(rates["theirs"], rates["ours"])
        if turn + 1 >= FEWEST and _width(compared) <= WITHIN:
            break
    low, high = compared.ci95 or (0.0, 0.0)
    print(f"{tool} through the testbed / {tool}: {compared.effect:.3f}x [{low:.3f}, {high:.3f}]", flush=True)
    return low >= 1 - WITHIN and high <= 1 + WITHIN


def _width(compared: Comparison) -> float:
    """How far the interval reaches from its centre, as a fraction."""
    if compared.ci95 is None or compared.effect is None:
        return 1.0
    return max(compared.ci95[1] / compared.effect, compared.effect / compared.ci95[0]) - 1


def ours(lab: Lab, options: Options) -> float:
    outcome = run(lab, options)
    if outcome.reason or not outcome.workload.bits_per_second:
        raise TestbedError(f"{options.tool}: {outcome.reason}")
    return outcome.workload.bits_per_second


def run(lab: Lab, options: Options, cpus: dict[str, list[int]] = CPUS) -> Outcome:
    with tempfile.TemporaryDirectory() as raw:
        hooks = Hooks(measuring=lambda: None)
        return TOOLS[options.tool].run(lab, options, cpus=cpus, hooks=hooks, raw=Path(raw), raw_name="x")


def command_iperf3(lab: Lab, options: Options) -> float:
    assert isinstance(options, Iperf3Options)
    server, client = ["iperf3", *iperf3_server(options)], ["iperf3", *iperf3_client(options, "fd01::2")]
    result = json.loads(command(lab, server, client, options.port))
    return float(result["end"]["sum_received"]["bits_per_second"])


def command_netperf(lab: Lab, options: Options) -> float:
    assert isinstance(options, NetperfOptions)
    server, client = ["netserver", *netperf_server(options)], ["netperf", *netperf_client(options, "fd01::2")]
    return float(parse_keys(command(lab, server, client, options.control_port))["THROUGHPUT"]) * 1e6


def command(lab: Lab, server: Sequence[str], client: Sequence[str], port: int) -> bytes:
    """What the client's command prints."""
    node = lab.nodes["server"]
    serving = node.start(server, role="server", cpus=[CPU], stdout=subprocess.DEVNULL)
    while not node.call(listens, serving.pid, port):
        time.sleep(0.001)
    asking = lab.nodes["client"].start(client, role="client", cpus=[CPU], stdout=subprocess.PIPE)
    output = _all_of(asking)
    serving.kill()
    return output


def _all_of(process: Process) -> bytes:
    assert process.stdout is not None
    with process.stdout as stream:
        output = stream.read()
    process.wait(10)
    return output


def nothing_left(runs: int) -> bool:
    """Print what `runs` runs leave; whether it is nothing."""
    tools = (
        {**ENDS, "tool": "iperf3"},
        {**ENDS, "tool": "netperf"},
        {**ENDS, "tool": "zerocopy", "duration": 0.2},
    )
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
