"""A guest as a site: `testbed run --kernel A --kernel B` measures the rounds of each kernel in a VM."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from testbed.capabilities import Capabilities
from testbed.evidence.collect import CollectSpec
from testbed.experiments.resolve import ResolvedState
from testbed.experiments.spec import RoundLimits
from testbed.guests.agent import Channel, GuestLost
from testbed.guests.vm import Vm
from testbed.kernels.cache import BuiltKernel
from testbed.records.round import Round
from testbed.records.run import Kernel
from testbed.running.measure import Task
from testbed.running.remote import RemoteSite
from testbed.running.site import SiteLost


class GuestSite:
    """A booted kernel. The guest writes into the run's folder `run` and into nothing else."""

    def __init__(
        self, kernel: BuiltKernel, folder: Path, run: Path, collect: CollectSpec, limits: RoundLimits
    ) -> None:
        """Boot `kernel`; `folder`, inside `run`, holds the guest's own record. BootFailed."""
        self._kernel = kernel
        self._vm = Vm(kernel, folder, shared=run)
        self._vm.boot()
        try:
            channel = _Watched(self._vm, self._vm.channel([sys.executable, "-m", "testbed.running.remote"]))
            self._remote = RemoteSite(kernel.name, channel, collect, limits, slowdown=self._vm.slowdown)
        except BaseException:
            self._vm.close()
            raise

    @property
    def name(self) -> str:
        return self._kernel.name

    @property
    def raw(self) -> Path:
        return self._remote.raw

    @raw.setter
    def raw(self, folder: Path) -> None:
        self._remote.raw = folder.absolute()

    def kernel(self) -> Kernel:
        """The guest's own record, completed with what only the cache of kernels knows (the series, say)."""
        known, way = self._kernel.record(), self._vm.way
        return self._remote.kernel().model_copy(
            update={
                "series": known.series,
                "build_key": known.build_key,
                "config_sha256": known.config_sha256,
                "accelerator": str(way.accelerator) if way else None,
            }
        )

    def capabilities(self, names: Iterable[str]) -> Capabilities:
        return self._remote.capabilities(names)

    def try_state(self, state: ResolvedState) -> None:
        self._remote.try_state(state)

    def measure(self, task: Task) -> Round:
        return self._remote.measure(task)

    def close(self) -> None:
        self._vm.close()


class _Watched:
    """The channel to the guest; when it breaks, the error has the guest kernel's last message."""

    def __init__(self, vm: Vm, channel: Channel) -> None:
        self._vm, self._channel = vm, channel

    def send(self, line: bytes) -> None:
        try:
            self._channel.send(line)
        except GuestLost as error:
            raise self._lost(error) from None

    def receive(self, timeout: float) -> bytes:
        try:
            return self._channel.receive(timeout)
        except GuestLost as error:
            raise self._lost(error) from None

    def _lost(self, error: GuestLost) -> SiteLost:
        reason = self._vm.crashed()
        self._vm.close()
        return SiteLost(f"the VM is lost: {reason or error} (see {self._vm.folder}/console.log)")
