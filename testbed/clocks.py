"""The two clocks of a round: CLOCK_MONOTONIC, and CLOCK_REALTIME, which can be set and some tools use."""

from __future__ import annotations

import time
from dataclasses import dataclass

# Reading one clock between two readings of the other is off by at most what lies between these.
_APART_S = 1e-4
_ATTEMPTS = 50
# Both clocks run at one rate, slewing by NTP included: what their difference changes by was set.
# Less than this is the reading, and a virtual machine's delay in it.
SMALLEST_STEP_S = 0.005


@dataclass(frozen=True)
class Moment:
    """One moment on CLOCK_MONOTONIC and on CLOCK_REALTIME, in seconds."""

    monotonic: float
    wall: float

    def step_since(self, before: Moment) -> float:
        """By how many seconds the wall clock was set since `before`; negative for back, 0 for not at all."""
        step = (self.wall - before.wall) - (self.monotonic - before.monotonic)
        return step if abs(step) >= SMALLEST_STEP_S else 0.0


def read() -> Moment:
    """Read both clocks now, again where this thread lost the CPU between the two."""
    best = None
    for _ in range(_ATTEMPTS):
        first, wall, last = time.monotonic(), time.time(), time.monotonic()
        if best is None or last - first < best[0]:
            best = last - first, Moment((first + last) / 2, wall)
        if best[0] <= _APART_S:
            break
    assert best is not None
    return best[1]


def in_words(step: float) -> str:
    """`set back by 3600.000 s`."""
    return f"set {'back' if step < 0 else 'forward'} by {abs(step):.3f} s"
