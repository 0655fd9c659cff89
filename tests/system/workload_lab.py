"""Runs a workload in a fresh veth pair, and harms it on the way where a test wants that."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from testbed.nodes.node import Node
from testbed.topology.lab import Lab, open_lab
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.tool import Hooks, Outcome

Harm = Callable[[Lab], object]


def nothing(lab: Lab) -> None:
    """No harm."""


def run(
    raw: Path,
    *,
    before: Harm = nothing,
    at_start: Harm = nothing,
    topology: str = "veth-pair",
    **given: object,
) -> Outcome:
    """One measurement from client to server. `before`: the lab is up; `at_start`: what follows counts."""
    options = parse_options({"from": "client", "to": "server", "duration": 1, **given})
    with open_lab(topology) as lab:
        before(lab)
        hooks = Hooks(measuring=lambda: at_start(lab))
        return TOOLS[options.tool].run(lab, options, cpus={}, hooks=hooks, raw=raw, raw_name="00000-x")


def processes_in(node: Node) -> list[int]:
    """The pids of the processes in the node's namespace."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "ns" / "net").stat().st_ino == node.netns:
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile
    return found


def send(signal: int, node: str, after_s: float = 0.3) -> Harm:
    """Send `signal` to the processes in `node`, a little later: in the middle of the test."""

    def harm(lab: Lab) -> None:
        def act() -> None:
            for pid in processes_in(lab.nodes[node]):
                os.kill(pid, signal)

        threading.Timer(after_s, act).start()

    return harm


def cut_the_cable(lab: Lab) -> None:
    lab.nodes["client"].start(["ip", "link", "set", "veth0", "down"], role="cut").wait(5)
