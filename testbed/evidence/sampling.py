"""A thread that samples something at an interval while a flow runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count

INTERVAL_S = 0.25
# Looks from one search for what to look at to the next: a search takes longer than a look.
SEARCH_EVERY = 4


class Sampler:
    """Calls `look` every INTERVAL_S seconds between `start` and `stop`, first at once.

    `look` hears whether to search: the first time and then every SEARCH_EVERY times. An OSError
    of it (a process or socket that just went) is passed over.
    """

    first = 0  # where in the cycle of a search and looks they begin; bench_observer.py varies it

    def __init__(self, look: Callable[[bool], None]) -> None:
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
        for number in count(self.first):
            with suppress(OSError):
                self._look(number % SEARCH_EVERY == 0)
            if self._stopping.wait(INTERVAL_S):
                return
