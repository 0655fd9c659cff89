"""What else this machine did while a round was measured, and the wait for it to be quiet before the first."""

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
from testbed.experiments.records import Noise
from testbed.topology.lab import Lab

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
        foreign=100 * sum(used(before.others, after.others).values()) / seconds,
    )


def used(before: Mapping[int, Task], after: Mapping[int, Task]) -> dict[str, float]:
    """CPU seconds that each program used between the two, by its name."""
    found: dict[str, float] = {}
    for pid, task in after.items():
        old = before.get(pid)
        spent = task.used_s - (old.used_s if old else 0.0)
        # A child that ended meanwhile brings its parent what it had used before, too.
        spent -= sum(gone.used_s for gone in before.values() if gone.parent == pid and gone.pid not in after)
        if spent > 0:
            found[task.name] = found.get(task.name, 0.0) + spent
    return found


def wait_for_quiet(
    limits: Mapping[str, float], timeout_s: float, tell: Callable[[str], None] = lambda text: None
) -> Noise:
    """Return when a second went by with each noise below its limit (percent), or after `timeout_s`.

    `tell` hears, at each vain look, what was too loud and which programs were at it.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        before = read()
        time.sleep(_LOOK_S)
        after = read()
        found = noise(before, after)
        loud = [name for name, limit in limits.items() if (getattr(found, name) or 0.0) > limit]
        if not loud or time.monotonic() > deadline:
            return found
        figures = ", ".join(
            f"{name} {getattr(found, name):.0f}% (limit {limits[name]:.0f}%)" for name in loud
        )
        programs = used(before.others, after.others)
        busiest = sorted(programs, key=lambda name: -programs[name])[:3]
        tell(
            f"waiting for a quiet machine: {figures}; busiest: {', '.join(busiest) or 'none of ours to see'}"
        )


def pressure(text: str) -> float | None:
    """Seconds of `some` in a file of /proc/pressure."""
    found = re.search(r"^some .*\btotal=(\d+)", text, re.MULTILINE)
    return int(found[1]) / 1e6 if found else None


def _waited() -> float | None:
    try:
        return pressure(_PRESSURE.read_text())
    except OSError:
        return None  # no CONFIG_PSI, or off at boot (psi=1)
