"""What a collector of evidence is to the runner."""

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
        """The lab is up and set, no flow has begun."""
        ...

    def measuring(self) -> None:
        """The warm-up seconds are over, what follows counts. Called from another thread than start."""
        ...

    def stop(self) -> Mapping[str, Any]:
        """The flow is over and its processes are gone: the fields this adds to the round's record.

        The key `invalid`, when present, is a list of reasons that make the round invalid.
        """
        ...

    def close(self) -> None:
        """Give back what it holds (descriptors, BPF programs)."""
        ...


@runtime_checkable
class EndsWithTest(Protocol):
    """A collector whose figures are of time: it must not go on after the test, while its processes end."""

    def over(self) -> None:
        """The measured part has ended. Called after `measuring`, never or several times; the last counts."""
        ...
