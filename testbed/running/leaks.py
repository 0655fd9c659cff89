"""Find leaks of a run: list what it could leave behind, before and after, and compare.

Links and mounts are those of this process's own namespaces. Processes, network
namespaces and BPF programs count where this process or its descendants hold
them, so that what others start meanwhile is not blamed on the run.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from testbed.evidence.processes import family, tasks
from testbed.nodes import cgroup

_POLL_S = 0.02


@dataclass(frozen=True)
class Inventory:
    """Everything that a run could leave behind, as text."""

    links: frozenset[str]
    namespaces: frozenset[str]
    processes: frozenset[str]
    mounts: frozenset[str]
    programs: frozenset[str]
    cgroups: frozenset[str]


def take() -> Inventory:
    """The inventory now."""
    known = tasks()
    ours = family(os.getpid(), known)
    return Inventory(
        links=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        namespaces=frozenset(namespace for pid in ours for namespace in _namespaces(pid)),
        processes=frozenset(f"{pid} ({known[pid].name})" for pid in ours & known.keys()),
        mounts=frozenset(mount_points(Path("/proc/self/mountinfo").read_text())),
        programs=frozenset(program for pid in ours for program in _programs(pid)),
        cgroups=frozenset(str(path) for path in cgroup.ours()),
    )


def leaked(before: Inventory, after: Inventory) -> list[str]:
    """What is there after and was not before, a line for each kind of thing."""
    found = []
    for field in fields(Inventory):
        added = getattr(after, field.name) - getattr(before, field.name)
        if added:
            found.append(f"{field.name} left behind: {', '.join(sorted(added))}")
    return found


def leaked_since(before: Inventory, patience_s: float = 2.0) -> list[str]:
    """What is left once the kernel had `patience_s` for taking down what was closed: it takes its time."""
    deadline = time.monotonic() + patience_s
    while (found := leaked(before, take())) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return found


def mount_points(mountinfo: str) -> list[str]:
    """The mount points of a /proc/PID/mountinfo, but for named namespaces: a run names none, others may."""
    points = (line.split()[4] for line in mountinfo.splitlines())
    return [point for point in points if not point.startswith("/run/netns/")]


def _namespaces(pid: int) -> Iterator[str]:
    """The network namespaces that a process is in, or holds a descriptor of."""
    for path in (Path(f"/proc/{pid}/ns/net"), *_listed(Path(f"/proc/{pid}/fd"))):
        with suppress(OSError):
            target = str(path.readlink())
            if target.startswith("net:["):
                yield target


def _programs(pid: int) -> Iterator[str]:
    """The BPF programs that a process holds, directly or by an attachment."""
    for path in _listed(Path(f"/proc/{pid}/fdinfo")):
        with suppress(OSError):
            for number in re.findall(r"^prog_id:\s*(\d+)$", path.read_text(), re.MULTILINE):
                yield f"program {number}"


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []  # the process ended
