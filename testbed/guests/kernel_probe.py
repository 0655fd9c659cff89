"""Probe a kernel in a guest, once, and cache its capabilities."""

from __future__ import annotations

import json
import sys
from typing import Any

from testbed import available
from testbed.errors import TestbedError
from testbed.guests.vm import Vm
from testbed.kernels import cache
from testbed.kernels.cache import BuiltKernel

PROBE_S = 60.0


def capabilities(kernel: BuiltKernel) -> dict[str, Any]:
    """What `testbed probe` finds in it, tools aside, which are this machine's: `values` and `why`.

    It is booted for that the first time, and what it found kept with it. BootFailed.
    """
    if (known := kernel.capabilities()) is not None:
        return known
    with available.scratch("testbed-probe-") as scratch:
        with Vm(kernel, scratch / "vm") as vm:
            result = vm.run([sys.executable, "-m", "testbed.probing"], timeout=PROBE_S)
        if result.status != 0:
            lines = result.stderr.read_text(errors="replace").splitlines() if result.stderr.exists() else []
            raise TestbedError(
                f"probe in {kernel.name}: {result.reason or (lines or ['no reason given'])[-1]}"
            )
        found: dict[str, Any] = json.loads(result.stdout.read_text())
    cache.save_capabilities(kernel, found)
    return found
