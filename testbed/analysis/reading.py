"""Read a run's folder and make its report."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.analysis.report import Report, make_report
from testbed.records.store import open_run


def read_report(folder: Path, *, whole: bool = False) -> Report:
    """The report of the run in `folder`, see make_report; InputError for what is no run."""
    stored = open_run(folder)
    with without_cycle_collection():
        return make_report(stored.run, stored.rounds(), stored.problems, whole=whole)


@contextmanager
def without_cycle_collection() -> Iterator[None]:
    """Figures are many and hold no cycles: looking for some takes a fifth of a long report's time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
