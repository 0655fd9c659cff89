"""Scale time limits on slow machines, such as emulated guests.

A guest under software emulation runs ten times slower than the machine; who
boots it says so in TESTBED_SLOWDOWN, and every time limit inside is scaled by it.
"""

from __future__ import annotations

import os

VARIABLE = "TESTBED_SLOWDOWN"


def scaled(seconds: float) -> float:
    """A time limit, given for a machine of ordinary speed, as it is here (never less)."""
    try:
        return seconds * max(1.0, float(os.environ.get(VARIABLE, "1")))
    except ValueError:
        return seconds
