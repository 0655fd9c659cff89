"""Sites, where rounds are measured: this machine, or a guest that runs another kernel (`guest_site`)."""

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


class SiteLost(TestbedError):
    """The site is gone: its guest crashed, hung or was killed. Rounds measured before are kept."""


class Site(Protocol):
    """A kernel that can measure rounds. Closing a site frees its collectors or ends its guest."""

    @property
    def name(self) -> str: ...

    raw: Path  # where raw output goes: the run's raw/

    def kernel(self) -> Kernel: ...

    def capabilities(self, names: Iterable[str]) -> Capabilities: ...

    def try_state(self, state: ResolvedState) -> None:
        """Bring the state up once. MissingCapability, with the kernel's reason, when it refuses a setting."""
        ...

    def measure(self, task: Task) -> Round: ...

    def close(self) -> None: ...


class LocalSite:
    """This machine and its running kernel."""

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
