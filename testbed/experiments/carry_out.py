"""An experiment from start to end: the run's folder, its rounds, and what the exit status should say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.experiments.place import Here
from testbed.experiments.records import Status
from testbed.experiments.resolve import Resolved
from testbed.experiments.runner import Observer, Runner, Stop, new_run, reopen
from testbed.experiments.schedule import Leg
from testbed.experiments.store import StoredRun


@dataclass(frozen=True)
class Ended:
    """How a run ended. `failures`: what keeps the exit status from 0, one line each."""

    folder: Path
    status: Status
    failures: list[str]

    @property
    def exit_status(self) -> int:
        return 0 if self.status == "complete" and not self.failures else 1


def carry_out(
    resolved: Resolved,
    stored: StoredRun | None,
    *,
    results: Path,
    argv: Sequence[str],
    observer: Observer,
    stop: Stop,
) -> Ended:
    """Run `resolved` into a new folder below `results`, or go on with `stored`."""
    experiment = resolved.experiment
    place = Here(experiment.collect, experiment.protocol.noise)
    try:
        writer = reopen(stored, resolved, place) if stored else new_run(resolved, place, results, argv)
        try:
            runner = Runner(resolved, [Leg()], lambda leg: place, writer, observer, stop)
            status = runner.run(stored.rounds() if stored else ())
        finally:
            writer.close()
    finally:
        place.close()
    return Ended(writer.folder, status, runner.failed)
