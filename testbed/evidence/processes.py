"""Processes from /proc: their parents, CPU time, namespaces and cores."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_KTHREADD = 2
_PROC = Path("/proc")


@dataclass(frozen=True)
class Task:
    """A process. `used_s`: CPU seconds of itself and of the children it waited for."""

    pid: int
    parent: int
    name: str
    used_s: float
    processor: int

    @property
    def kernel_thread(self) -> bool:
        return _KTHREADD in (self.pid, self.parent)


def tasks() -> dict[int, Task]:
    """Every process of this machine, by pid."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  (a third of the time of paths, twice in every round)
        if name.isdigit():
            try:
                task = parse_stat(_read(f"/proc/{name}/stat"))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
            found[task.pid] = task
    return found


def _read(path: str) -> str:
    """A file of a process. Bare system calls: half the time of a file object."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65536).decode(errors="replace")
    finally:
        os.close(descriptor)


def parse_stat(line: str) -> Task:
    """A line of /proc/PID/stat. The name stands in brackets and may hold anything, brackets too."""
    pid, rest = line.split(" (", 1)
    name, rest = rest.rsplit(") ", 1)
    fields = rest.split()
    used = sum(int(ticks) for ticks in fields[11:15])  # utime, stime, cutime, cstime
    return Task(int(pid), int(fields[1]), name, used * _TICK_S, int(fields[36]))


def family(root: int, known: Mapping[int, Task]) -> set[int]:
    """The pids of `root` and of all below it."""
    children: dict[int, list[int]] = {}
    for task in known.values():
        children.setdefault(task.parent, []).append(task.pid)
    found, waiting = set(), [root]
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        waiting += children.get(pid, [])
    return found


def descendants(root: int) -> dict[int, Task]:
    """`root` and all below it, by pid.

    Where the kernel lists children (CONFIG_PROC_CHILDREN) nobody else is looked at, which takes a
    tenth of the time of going through all of /proc.
    """
    if not (_PROC / "thread-self" / "children").exists():
        known = tasks()
        return {pid: known[pid] for pid in family(root, known) if pid in known}
    found, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        try:
            found[pid] = parse_stat(_read(f"/proc/{pid}/stat"))
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  (as above)
                waiting += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return found


def in_namespaces(namespaces: Collection[int], pids: Iterable[int]) -> list[int]:
    """The `pids` that are in one of the network namespaces (inode numbers)."""
    wanted = {f"net:[{inode}]" for inode in namespaces}
    found = []
    for pid in pids:
        try:
            if str((_PROC / str(pid) / "ns" / "net").readlink()) in wanted:
                found.append(pid)
        except OSError:
            continue  # it ended, or is not ours to look at
    return found


def processors(pids: Iterable[int]) -> set[int]:
    """The CPUs that the threads of `pids` last ran on."""
    found = set()
    for pid in pids:
        try:
            for path in (_PROC / str(pid) / "task").iterdir():
                found.add(parse_stat((path / "stat").read_text()).processor)
        except OSError:
            continue
    return found
