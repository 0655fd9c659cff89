"""Noise: other load on this machine during a round, and the wait for a quiet machine before a run."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from testbed.evidence.processes import Task, family, tasks
from testbed.lab.lab import Lab
from testbed.records.round import Noise

_PRESSURE = Path("/proc/pressure/cpu")
_LOOK_S = 1.0


class NoiseMeter:
    """Collector: `noise`, over the whole round."""

    name = "noise"

    def __init__(self) -> None:
        self._before: Reading | None = None

    def start(self, lab: Lab) -> None:
        self._before = read()

    def measuring(self) -> None:
        pass

    def stop(self) -> Mapping[str, Any]:
        return {"noise": noise(self._before, read())} if self._before else {}

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Reading:
    """Counters of the machine at one moment. `waited_s`: time in which a task waited for a CPU (PSI)."""

    at: float
    waited_s: float | None
    stolen_s: float
    cpu_s: float
    others: Mapping[int, Task]


def read() -> Reading:
    """Read them now. Costs a few milliseconds, most of it for the processes."""
    times = psutil.cpu_times()
    known = tasks()
    ours = family(os.getpid(), known)
    others = {pid: task for pid, task in known.items() if pid not in ours and not task.kernel_thread}
    return Reading(time.monotonic(), _waited(), times.steal, sum(times), others)


def noise(before: Reading, after: Reading) -> Noise:
    """The noise between two readings.

    `foreign` counts the user processes that are not this process's descendants,
    with the children that ended and were waited for.
    """
    seconds = after.at - before.at
    cpu_seconds = after.cpu_s - before.cpu_s
    if seconds <= 0 or cpu_seconds <= 0:
        return Noise()
    waited = None
    if before.waited_s is not None and after.waited_s is not None:
        waited = 100 * (after.waited_s - before.waited_s) / seconds
    return Noise(
        cpu_pressure=waited,
        steal=100 * (after.stolen_s - before.stolen_s) / cpu_seconds,
        foreign=100 * used_s(before.others, after.others) / seconds,
    )


def used_s(before: Mapping[int, Task], after: Mapping[int, Task]) -> float:
    """CPU seconds of these processes between the two.

    All sums, no differences by process: what a process used moves to the one
    that waits for its end, which need not be its parent. One that nobody waits
    for takes its time with it, so this is rather too little than too much.
    """
    return max(0.0, sum(task.used_s for task in after.values()) - sum(t.used_s for t in before.values()))


def busiest(before: Mapping[int, Task], after: Mapping[int, Task], most: int = 3) -> list[str]:
    """The names of the processes there at both moments that used most between them."""
    spent = {pid: after[pid].used_s - task.used_s for pid, task in before.items() if pid in after}
    ranked = sorted((pid for pid in spent if spent[pid] > 0), key=lambda pid: -spent[pid])
    return list(dict.fromkeys(after[pid].name for pid in ranked))[:most]


def wait_for_quiet(
    limits: Mapping[str, float],
    timeout_s: float,
    report: Callable[[str], None] = lambda text: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Noise:
    """Return when a second went by with each noise below its limit (percent), or after `timeout_s`.

    It returns too when `stopped()`. `report` gets, at each look in vain, what was too loud and
    which programs were at it.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        before = read()
        time.sleep(_LOOK_S)
        after = read()
        found = noise(before, after)
        loud = [name for name, limit in limits.items() if (getattr(found, name) or 0.0) > limit]
        if not loud or stopped() or time.monotonic() > deadline:
            return found
        figures = ", ".join(
            f"{name} {getattr(found, name):.0f}% (limit {limits[name]:.0f}%)" for name in loud
        )
        programs = ", ".join(busiest(before.others, after.others)) or "many short ones"
        report(f"waiting for a quiet machine: {figures}; busiest: {programs}")


def pressure(text: str) -> float | None:
    """Seconds of `some` in a file of /proc/pressure."""
    found = re.search(r"^some .*\btotal=(\d+)", text, re.MULTILINE)
    return int(found[1]) / 1e6 if found else None


def _waited() -> float | None:
    try:
        return pressure(_PRESSURE.read_text())
    except OSError:
        return None  # no CONFIG_PSI, or off at boot (psi=1)
