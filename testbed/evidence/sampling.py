"""A thread that looks at something again and again while a flow runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

INTERVAL_S = 0.25
# Looks from one search for what to look at to the next: a search takes longer than a look.
SEARCH_EVERY = 4


class Sampler:
    """Calls `look` every INTERVAL_S seconds between `start` and `stop`, first at once.

    What `look` raises as OSError (a process or socket that just went) is passed over.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when it looks no more; idempotent."""
        if self._thread:
            self._stopping.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while True:
            with suppress(OSError):
                self._look()
            if self._stopping.wait(INTERVAL_S):
                return
