"""A build's progress on stderr: a live line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console

EVERY_S = 60.0


class BuildProgress(AbstractContextManager["BuildProgress"]):
    """Prints how far a build is, against what the tree's earlier build took where there was one."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("reading the tree") if self._console.is_terminal else None
        self._started = self._told = time.monotonic()

    def __enter__(self) -> BuildProgress:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def step(self, done: int, of: int | None, what: str) -> None:
        """One file more."""
        now = time.monotonic()
        share = f" of about {of}" if of and done <= of else ""
        text = f"{now - self._started:.0f} s, {done}{share} files, {what}"
        if self._status:
            self._status.update(text)
        elif now - self._told > EVERY_S:
            self._told = now
            self._console.print(text)
