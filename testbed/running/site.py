"""Where rounds are measured: on the running kernel, or (testbed.kernels) in a VM that runs another."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from testbed.capabilities import Capabilities
from testbed.errors import TestbedError
from testbed.evidence.collect import CollectSpec
from testbed.evidence.collectors import collectors_for
from testbed.experiments.resolve import ResolvedState
from testbed.experiments.spec import RoundLimits
from testbed.kernels.running import this_kernel
from testbed.records.round import Round
from testbed.records.run import Kernel
from testbed.running.measure import Task, measure, try_state


class PlaceLost(TestbedError):
    """The place is gone: its VM crashed, hung or was killed. What it had measured before is kept."""


class Place(Protocol):
    """A kernel that can measure rounds. Closing it gives back what it holds."""

    @property
    def name(self) -> str: ...

    raw: Path  # where raw output goes: the run's raw/

    def kernel(self) -> Kernel: ...

    def capabilities(self, names: Iterable[str]) -> Capabilities: ...

    def try_state(self, state: ResolvedState) -> None:
        """Whether the kernel takes the state's settings. MissingCapability, in its words, when not."""
        ...

    def measure(self, task: Task) -> Round: ...

    def close(self) -> None: ...


class Here:
    """The running kernel."""

    def __init__(self, collect: CollectSpec, limits: RoundLimits) -> None:
        self.name = platform.release()
        self.raw = Path()
        self._limits = limits
        self._collectors = collectors_for(collect)
        self._tried = False  # the collectors, with the first state that can be brought up

    def kernel(self) -> Kernel:
        return this_kernel()

    def capabilities(self, names: Iterable[str]) -> Capabilities:
        from testbed.probing import find  # only where a state requires something

        return find(names)

    def try_state(self, state: ResolvedState) -> None:
        try_state(state, () if self._tried else self._collectors)
        self._tried = True

    def measure(self, task: Task) -> Round:
        return measure(task, self._collectors, self._limits, self.raw)

    def close(self) -> None:
        for collector in self._collectors:
            collector.close()
