"""A session runs an experiment from start to end: the run's folder, its rounds, its exit status."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from testbed.errors import TestbedError
from testbed.evidence.noise import wait_for_quiet
from testbed.experiments.resolve import Resolved
from testbed.experiments.schedule import Leg, legs
from testbed.experiments.spec import Protocol
from testbed.kernels.running import this_kernel
from testbed.records.run import Kernel, Status
from testbed.records.store import StoredRun
from testbed.running.leaks import leaked_since, take
from testbed.running.runner import Observer, Runner, Stop, new_run, reopen
from testbed.running.site import LocalSite, Site


@dataclass(frozen=True)
class Ended:
    """How a run ended. `failures`: what keeps the exit status from 0, one line each."""

    folder: Path
    status: Status
    failures: list[str]

    @property
    def exit_status(self) -> int:
        return 0 if self.status == "complete" and not self.failures else 1


@dataclass(frozen=True)
class Kernels:
    """The kernels to boot in turn, by their names in `kernel list`. None: the running kernel measures."""

    names: tuple[str, ...] = ()
    boots: int = 1

    def legs(self, rounds: int) -> list[Leg]:
        return legs(self.names, rounds, self.boots) if self.names else [Leg()]


def kernels_of(resolved: Resolved, requested: Sequence[str], boots: int) -> Kernels:
    """The kernels requested, else those of the states. InputError, with the nearest, for an unknown one."""
    named = [state.kernel for state in resolved.states.values() if state.kernel is not None]
    names = dict.fromkeys(requested or named)
    if not names:
        return Kernels()
    from testbed.kernels.cache import find

    return Kernels(tuple(dict.fromkeys(find(name).name for name in names)), boots)


def carry_out(
    resolved: Resolved,
    stored: StoredRun | None,
    *,
    kernels: Kernels,
    results: Path,
    argv: Sequence[str],
    observer: Observer,
    stop: Stop,
) -> Ended:
    """Run `resolved` into a new folder below `results`, or go on with `stored`."""
    before = take()
    found = {name: _kernel(name) for name in kernels.names} or {platform.release(): this_kernel()}
    if stored:
        writer = reopen(stored, resolved, found)
    else:
        writer = new_run(resolved, found, kernels.boots, results, argv)
    try:
        plan = kernels.legs(resolved.experiment.protocol.rounds)
        runner = Runner(resolved, plan, _opener(resolved, writer.folder), writer, observer, stop)
        _wait_for_quiet(resolved.experiment.protocol, observer, stop)
        status = runner.run(stored.rounds() if stored else ())
    except TestbedError:
        writer.discard_unless_measured()
        raise
    finally:
        writer.close()
    failures = [*runner.failed, *leaked_since(before), *_unmet_expectations(writer.folder)]
    return Ended(writer.folder, status, failures)


def _wait_for_quiet(protocol: Protocol, observer: Observer, stop: Stop) -> None:
    limits = {name: limit * 100 for name, limit in protocol.noise.model_dump(exclude_none=True).items()}
    if limits and protocol.quiet_wait:
        wait_for_quiet(limits, protocol.quiet_wait, observer.waiting, lambda: stop.requested)


def _unmet_expectations(folder: Path) -> list[str]:
    from testbed.analysis.reading import read_report

    judged = read_report(folder).data.expectations
    return [f"expected {one.expectation}; found {one.found}" for one in judged if one.holds is not True]


def _kernel(name: str) -> Kernel:
    from testbed.kernels.cache import find

    return find(name).record()


def _opener(resolved: Resolved, run: Path) -> Callable[[Leg], Site]:
    """Return what opens the site of a leg: this machine, or a guest that boots another kernel."""
    collect, limits = resolved.experiment.collect, resolved.experiment.protocol.limits

    def open_site(leg: Leg) -> Site:
        if leg.kernel is None:
            return LocalSite(collect, limits)
        from testbed.kernels.cache import find
        from testbed.running.guest_site import GuestSite

        folder = _fresh(run / "vm", f"{leg.boot:02d}-{leg.kernel}")
        return GuestSite(find(leg.kernel), folder, run, collect, limits)

    return open_site


def _fresh(parent: Path, name: str) -> Path:
    """A name below `parent` that no earlier boot has: a boot never overwrites another's record."""
    taken = {path.name for path in parent.glob(f"{name}*")}
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return parent / next(candidate for candidate in names if candidate not in taken)
