"""CPU profile of a round, by kernel or user function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from testbed.evidence.perf import Perf, functions
from testbed.lab.lab import Lab
from testbed.records.round import Profile

_MOST = 60  # functions kept
_HERTZ = "499"  # not a divisor of the tick's
_IDLE = {
    "acpi_idle_do_entry",
    "cpu_idle_poll.isra.0",
    "cpuidle_enter_state",
    "default_idle",
    "do_idle",
    "haltpoll_enter_idle",
    "intel_idle",
    "mwait_idle",
    "native_safe_halt",
    "poll_idle",
    "pv_native_safe_halt",
}


class CpuProfile:
    """Collector: `profile`, of the whole machine over the whole flow, idle time left out."""

    name = "profile"

    def __init__(self) -> None:
        """MissingCapability without perf."""
        self._perf = Perf(["-F", _HERTZ])

    def start(self, lab: Lab) -> None:
        self._perf.start(lab)

    def measuring(self) -> None:
        pass

    def stop(self) -> Mapping[str, Any]:
        return {"profile": profile(functions(self._perf.stop("ip,sym")))}

    def close(self) -> None:
        self._perf.close()


def profile(sampled: Iterable[str]) -> Profile:
    """Shares by function, one name a sample; what perf cannot name is `[unknown]`."""
    counted = Counter(sampled)
    busy = {name: times for name, times in counted.items() if name not in _IDLE}
    total = sum(busy.values())
    ranked = sorted(busy, key=lambda name: (-busy[name], name))[:_MOST]
    return Profile(samples=total, functions={name: 100 * busy[name] / total for name in ranked})
