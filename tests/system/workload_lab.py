"""Runs a workload in a fresh veth pair, and harms it on the way where a test wants that."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from testbed.evidence.collector import Collector
from testbed.experiments.resolve import ResolvedState
from testbed.experiments.schedule import Slot
from testbed.experiments.spec import RoundLimits
from testbed.lab.lab import Lab, open_lab
from testbed.nodes.node import Node
from testbed.records.round import Round
from testbed.running.measure import Task, measure
from testbed.topology.loading import load_topology
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.tool import Hooks, Options, Outcome

Harm = Callable[[Lab], object]


def nothing(lab: Lab) -> None:
    """No harm."""


def run(
    raw: Path,
    *,
    before: Harm = nothing,
    at_start: Harm = nothing,
    at_end: Harm = nothing,
    topology: str = "veth-pair",
    **given: object,
) -> Outcome:
    """One measurement from client to server. `before`: the lab is up; `at_start`: what follows counts;
    `at_end`: the test is over.
    """
    options = parse_options({"from": "client", "to": "server", "duration": 1, **given})
    with open_lab(topology) as lab:
        before(lab)
        hooks = Hooks(measuring=lambda: at_start(lab))
        outcome = TOOLS[options.tool].run(lab, options, cpus={}, hooks=hooks, raw=raw, raw_name="00000-x")
        at_end(lab)
        return outcome


class Harmful:
    """A collector that harms the round it observes, and sees what of it is left."""

    name = "harmful"

    def __init__(self, before: Harm, at_start: Harm) -> None:
        self._before, self._at_start = before, at_start

    def start(self, lab: Lab) -> None:
        self.lab = lab
        self.namespaces = [node.netns for node in lab.nodes.values()]
        self._before(lab)

    def measuring(self) -> None:
        self._at_start(self.lab)

    def stop(self) -> Mapping[str, object]:
        return {}

    def close(self) -> None: ...

    def left(self) -> list[int]:
        """Processes that still are in the lab's namespaces."""
        return [pid for netns in self.namespaces for pid in processes_at(netns)]


def state_of(options: Options) -> ResolvedState:
    """A state with this workload."""
    return ResolvedState("state", load_topology("veth-pair"), options, {}, {}, None, {})


def record(
    raw: Path,
    *,
    before: Harm = nothing,
    at_start: Harm = nothing,
    beside: Sequence[Collector] = (),
    **given: object,
) -> tuple[Round, Harmful]:
    """The record of a whole round, as a run writes it. `beside`: other collectors that observe it."""
    state = state_of(parse_options({"from": "client", "to": "server", "duration": 1, **given}))
    harmful = Harmful(before, at_start)
    task = Task(0, Slot(0, 0, state.name), state, kernel="this")
    return measure(task, [harmful, *beside], RoundLimits(), raw), harmful


def processes_in(node: Node) -> list[int]:
    """The pids of the processes in the node's namespace."""
    return processes_at(node.netns)


def processes_at(netns: int | None) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "ns" / "net").stat().st_ino == netns:
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile
    return found


def send(signal: int, node: str) -> Harm:
    """Send `signal` to the processes in `node`."""

    def harm(lab: Lab) -> None:
        for pid in processes_in(lab.nodes[node]):
            os.kill(pid, signal)

    return harm


def in_the_middle(harm: Harm) -> Harm:
    """Do the harm as soon as the client has sent 1 MB: the test runs."""

    def wait(lab: Lab) -> None:
        while _bytes_sent(lab.nodes["client"]) < 1_000_000:
            time.sleep(0.005)
        harm(lab)

    return lambda lab: threading.Thread(target=wait, args=(lab,), daemon=True).start()


def _bytes_sent(node: Node) -> int:
    for pid in processes_in(node):
        try:
            lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
        except OSError:
            continue
        return next(int(line.split()[9]) for line in lines if line.strip().startswith("veth0:"))
    return 0


def cut_the_cable(lab: Lab) -> None:
    lab.nodes["client"].start(["ip", "link", "set", "veth0", "down"], role="cut").wait(20)
