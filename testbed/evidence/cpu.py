"""How each core spent the measured seconds, from /proc/stat (by psutil)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from testbed.experiments.records import CoreUse, Cpu
from testbed.topology.lab import Lab

Times = Mapping[str, float]


class CpuUse:
    """Collector: `cpu.per_core`, in percent of the time from `measuring` (or `start`) to `stop`."""

    name = "cpu"

    def __init__(self) -> None:
        self._before: list[Times] = []

    def start(self, lab: Lab) -> None:
        self._before = read()

    def measuring(self) -> None:
        self._before = read()

    def stop(self) -> Mapping[str, Any]:
        return {"cpu": Cpu(per_core=use(self._before, read()))}

    def close(self) -> None:
        pass


def read() -> list[Times]:
    """Seconds that each core has spent in each way since boot."""
    return [core._asdict() for core in psutil.cpu_times(percpu=True)]


def use(before: Sequence[Times], after: Sequence[Times]) -> list[CoreUse]:
    """Percent of the time between the two, per core. User includes nice and guest time."""
    return [_core(old, new) for old, new in zip(before, after, strict=True)]


def _core(before: Times, after: Times) -> CoreUse:
    spent = {name: max(0.0, after[name] - before.get(name, 0.0)) for name in after}
    ways = {name: spent.get(name, 0.0) for name in CoreUse.model_fields}
    ways["user"] += spent.get("nice", 0.0)
    total = sum(ways.values())
    return CoreUse(**{name: 100 * part / total if total else 0.0 for name, part in ways.items()})
