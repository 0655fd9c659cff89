"""The interface between the runner and collectors of evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from testbed.lab.lab import Lab


class Collector(Protocol):
    """Observes rounds. One object serves a whole run; each round calls start, measuring, stop.

    An exception from any of the three makes the round invalid, with its text as
    the reason; the runner still calls `stop` and goes on.
    """

    name: str

    def start(self, lab: Lab) -> None:
        """Called when the lab is up and no flow has begun."""
        ...

    def measuring(self) -> None:
        """Called when the warm-up seconds are over, from another thread than `start`."""
        ...

    def stop(self) -> Mapping[str, Any]:
        """Called when the flow's processes are gone. Returns the fields for the round's record.

        The key `invalid`, when present, is a list of reasons that make the round invalid.
        """
        ...

    def close(self) -> None:
        """Release its resources (descriptors, BPF programs)."""
        ...


@runtime_checkable
class EndsWithTest(Protocol):
    """A collector whose figures are of time: it must not go on after the test, while its processes end."""

    def over(self) -> None:
        """Called after `measuring` when the measured part has ended. Of several calls the last one counts."""
        ...
