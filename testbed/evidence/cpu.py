"""CPU use of each core in the measured seconds, from /proc/stat, and which process or softirq ran there."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import psutil
from msgspec.structs import replace

from testbed.evidence.processes import descendants, in_namespaces, processors
from testbed.evidence.sampling import Sampler
from testbed.kernels.running import kernel_config
from testbed.lab.lab import Lab
from testbed.records.round import CoreUse, Cpu, ProcessUse

Times = Mapping[str, float]

# A core belongs to "net" when at least this part of all softirq time fell there.
_NET_SHARE = 0.2


class _Reading(NamedTuple):
    """CPU seconds at one moment: of each core, of this process, of the lab's processes since the start."""

    at: float
    cores: list[Times]
    own: resource.struct_rusage
    of_lab: dict[str, ProcessUse]


class CpuUse:
    """Collector: `cpu`, in percent of the time from `measuring` (or `start`) to `over` or `stop`.

    "app" is the mean of the cores that the workload's processes were seen on,
    "net" of those where the softirqs ran. `processes` gets the line `testbed`:
    this process with all its collectors, and a line for each process that the lab
    itself needs, a pump.
    """

    name = "cpu"

    def __init__(self) -> None:
        self._irq_time = irq_time(kernel_config())
        self._namespaces: list[int] = []
        self._begun = time.monotonic()
        self._before: list[Times] = []
        self._own_before = resource.getrusage(resource.RUSAGE_SELF)
        self._over: _Reading | None = None
        self._app: set[int] = set()
        self._workload: list[int] = []
        self._lab: dict[str, psutil.Process] = {}
        self._lab_before: dict[str, ProcessUse | None] = {}
        self._sampler = Sampler(self._look)

    def start(self, lab: Lab) -> None:
        self._namespaces = [node.netns for node in lab.nodes.values() if node.netns is not None]
        self._lab = {role: psutil.Process(pid) for role, pid in lab.processes().items()}
        self._begin()

    def measuring(self) -> None:
        self._begin()
        self._sampler.start()

    def stop(self) -> Mapping[str, Any]:
        at, after, own, of_lab = self._over or self._read()
        self._sampler.stop()
        cores = use(self._before, after)
        return {
            "cpu": Cpu(
                per_core=cores,
                app=mean(cores, self._app),
                net=mean(cores, busiest_softirq(self._before, after)),
                app_cores=sorted(self._app),
                net_cores=busiest_softirq(self._before, after),
                core_s=(at - self._begun) * len(cores),
                processes={
                    "testbed": ProcessUse(
                        user_s=own.ru_utime - self._own_before.ru_utime,
                        system_s=own.ru_stime - self._own_before.ru_stime,
                    ),
                    **of_lab,
                },
                irq_time=self._irq_time,
            )
        }

    def close(self) -> None:
        self._sampler.stop()

    def over(self) -> None:
        self._over = self._read()

    def _read(self) -> _Reading:
        return _Reading(time.monotonic(), read(), resource.getrusage(resource.RUSAGE_SELF), self._lab_use())

    def _begin(self) -> None:
        self._app, self._workload, self._over = set(), [], None
        self._begun = time.monotonic()
        self._before, self._own_before = read(), resource.getrusage(resource.RUSAGE_SELF)
        self._lab_before = {role: used(process) for role, process in self._lab.items()}

    def _lab_use(self) -> dict[str, ProcessUse]:
        """What the lab's own processes used since `_begin`."""
        uses = {}
        for role, before in self._lab_before.items():
            now = used(self._lab[role])
            if before is not None and now is not None:
                uses[role] = ProcessUse(
                    user_s=now.user_s - before.user_s, system_s=now.system_s - before.system_s
                )
        return uses

    def _look(self, search: bool) -> None:
        """Note where the workload's processes are."""
        if search:
            self._workload = self._find()
        self._app |= processors(self._workload)

    def _find(self) -> list[int]:
        """The workload's processes: our descendants inside the lab's namespaces."""
        others = {os.getpid(), *(process.pid for process in self._lab.values())}
        ours = descendants(os.getpid()).values()
        return in_namespaces(
            self._namespaces, (task.pid for task in ours if task.pid not in others and task.name != "perf")
        )


# The workload's clock is the scheduler's, this one reads a little earlier or later.
_TOLERANCE, _TOLERANCE_S = 1.02, 0.05


def account(cpu: Cpu, foreign: float) -> tuple[Cpu, str | None]:
    """How much of the cores' time is known to be somebody's, and why that cannot be true, where it cannot.

    `cpu` holds every process of the round; `foreign` is Noise.foreign, percent of one core.
    """
    if not cpu.core_s:
        return cpu, None
    of_cores = cpu.core_s / len(cpu.per_core) / 100
    ours = sum(one.user_s + one.system_s for one in cpu.processes.values())
    processes = of_cores * sum(core.user + core.system for core in cpu.per_core)
    others = min(foreign / 100 * cpu.core_s / len(cpu.per_core), max(0.0, processes - ours))
    known = cpu.core_s - processes + min(ours, processes) + others
    counted = replace(cpu, accounted=known / cpu.core_s)
    # Not against the busy time: the tick samples it, and misses what runs between ticks.
    if ours <= cpu.core_s * _TOLERANCE + _TOLERANCE_S * len(cpu.per_core):
        return counted, None
    return counted, f"cpu: the processes used {ours:.2f} s, the cores had {cpu.core_s:.2f} s"


def used(process: psutil.Process) -> ProcessUse | None:
    """CPU seconds of a process since it started; None where it has ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return None
    return ProcessUse(user_s=times.user, system_s=times.system)


def read() -> list[Times]:
    """Seconds that each core has spent in each way since boot."""
    return [core._asdict() for core in psutil.cpu_times(percpu=True)]


def use(before: Sequence[Times], after: Sequence[Times]) -> list[CoreUse]:
    """Percent of the time between the two, per core. User includes nice and guest time."""
    return [_core(old, new) for old, new in zip(before, after, strict=True)]


def busiest_softirq(before: Sequence[Times], after: Sequence[Times]) -> list[int]:
    """The cores on which a good part of the softirq time fell; empty when there was none."""
    spent = [new["softirq"] - old["softirq"] for old, new in zip(before, after, strict=True)]
    total = sum(spent)
    return [core for core, part in enumerate(spent) if part > 0 and part >= _NET_SHARE * total]


def mean(cores: Sequence[CoreUse], chosen: Collection[int]) -> CoreUse | None:
    """The mean of the chosen cores; None when none was chosen."""
    picked = [cores[core] for core in chosen if core < len(cores)]
    if not picked:
        return None
    names = CoreUse.__struct_fields__
    return CoreUse(**{name: _mean(getattr(core, name) for core in picked) for name in names})


def irq_time(config: bytes | None) -> str | None:
    """`accounted` to the nanosecond, or `sampled` by the tick, by the kernel's configuration."""
    if config is None:
        return None
    options = rb"^CONFIG_(IRQ_TIME_ACCOUNTING|VIRT_CPU_ACCOUNTING_GEN|VIRT_CPU_ACCOUNTING_NATIVE)=y$"
    return "accounted" if re.search(options, config, re.MULTILINE) else "sampled"


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _ways(before: Times, after: Times) -> dict[str, float]:
    """Seconds by way. User includes nice; guest time is in it already."""
    spent = {name: max(0.0, after[name] - before.get(name, 0.0)) for name in after}
    ways = {name: spent.get(name, 0.0) for name in CoreUse.__struct_fields__}
    ways["user"] += spent.get("nice", 0.0)
    return ways


def _core(before: Times, after: Times) -> CoreUse:
    ways = _ways(before, after)
    total = sum(ways.values())
    return CoreUse(**{name: 100 * part / total if total else 0.0 for name, part in ways.items()})
