"""Report sections of a failed test (labs and flows), and a shell in one of its nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testbed.lab.lab import Lab
    from testbed.library import Direction, FlowRecord

_LIMITS = ("mtu", "gso_max_size", "gso_ipv4_max_size", "gro_max_size", "gro_ipv4_max_size")
_DIRECTIONS: tuple[Direction, ...] = ("tx", "rx")
_BECOME = "import sys; from testbed.nodes.enter import become; become(int(sys.argv[1]), sys.argv[2:])"


def settings(lab: Lab) -> str:
    """The actual limits of every device, and the requested value where it differs."""
    lines = []
    for end, state in lab.states().items():
        summary = state.summary()
        lines.append(f"{end}: {' '.join(f'{name} {summary[name]}' for name in _LIMITS if name in summary)}")
    return "\n".join([*lines, *lab.drift().lines()])


def sizes(flow: FlowRecord) -> str:
    """The flow's rate, and for each hop its largest packet and the sizes that carry most of the bytes."""
    rate = (flow.workload.bits_per_second or 0) / 1e9
    hops = [_hop(flow, device, direction) for device in flow.counters for direction in _DIRECTIONS]
    return "\n".join([f"{flow.workload.tool}: {rate:.2f} Gbit/s", *hops])


def _hop(flow: FlowRecord, device: str, direction: Direction) -> str:
    seen = flow.sizes(device, direction)
    if not seen:
        return f"{device} {direction}: no packet seen"
    most = sorted(seen, key=lambda size: -size * seen[size])[:3]
    text = ", ".join(f"{size} ({seen[size]} packets)" for size in most)
    return f"{device} {direction}: largest {max(seen)}; most of the bytes in {text}"


def sections(labs: list[Lab], flows: list[FlowRecord]) -> Iterator[tuple[str, str]]:
    """Title and text of what the report of a failed test gets."""
    yield from (("testbed: settings as the kernel holds them", settings(lab)) for lab in labs)
    yield from (("testbed: packet sizes of the flow", sizes(flow)) for flow in flows)
    kept = [f"testbed show {lab.name}; testbed down {lab.name}" for lab in labs if lab.name]
    if kept:
        yield "testbed: labs that are still up", "\n".join(kept)


def shell(config: pytest.Config, lab: Lab, node: str) -> None:
    """A shell in `node`, on the terminal, until the user leaves it."""
    if node not in lab.nodes:
        raise pytest.UsageError(f"--testbed-shell: no node '{node}'; there are {', '.join(lab.nodes)}")
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture:
        capture.suspend_global_capture(in_=True)
    try:
        print(f"\na shell in {node}; the session goes on when you leave it", file=sys.stderr)
        namespace = lab.namespace(node)
        argv = [sys.executable, "-c", _BECOME, str(namespace), os.environ.get("SHELL", "/bin/sh")]
        subprocess.run(argv, pass_fds=[namespace], check=False)
    finally:
        if capture:
            capture.resume_global_capture()
