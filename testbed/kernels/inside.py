"""What a kernel can do: `testbed probe` run inside it, once."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from testbed.errors import TestbedError
from testbed.kernels import store
from testbed.kernels.store import BuiltKernel
from testbed.kernels.vm import Vm

PROBE_S = 60.0


def capabilities(kernel: BuiltKernel) -> dict[str, Any]:
    """What `testbed probe --json` prints in it; kept with the kernel. BootFailed."""
    if (known := kernel.capabilities()) is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="testbed-probe-") as scratch:
        folder = Path(scratch) / "vm"
        with Vm(kernel, folder) as vm:
            result = vm.run([sys.executable, "-m", "testbed", "probe", "--json"], timeout=PROBE_S)
        if result.status != 0:
            lines = (
                result.stderr.read_text(errors="replace").strip().splitlines()
                if result.stderr.exists()
                else []
            )
            why = result.reason or (lines[-1] if lines else f"exit status {result.status}")
            raise TestbedError(f"testbed probe in {kernel.name}: {why}")
        found: dict[str, Any] = json.loads(result.stdout.read_text())
    store.save_capabilities(kernel, found)
    return found
