"""Pin the vCPUs of a guest to CPUs of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import psutil

from testbed.errors import TestbedError


def pin_vcpus(supervisor: int, cpus: Sequence[int]) -> None:
    """Pin vCPU i of the QEMU below the process `supervisor` to `cpus[i]` (round and round)."""
    threads = vcpu_threads(supervisor)
    if not threads:
        raise TestbedError("QEMU shows no vCPU threads to pin")
    for number, thread in threads.items():
        try:
            os.sched_setaffinity(thread, {cpus[number % len(cpus)]})
        except OSError as error:
            raise TestbedError(
                f"cannot pin vCPU {number} to CPU {cpus[number % len(cpus)]}: {error.strerror}"
            ) from None


def vcpu_threads(supervisor: int) -> dict[int, int]:
    """vCPU number -> thread id. QEMU names its threads with `debug-threads=on`."""
    found = {}
    for process in psutil.Process(supervisor).children(recursive=True):
        for task in Path(f"/proc/{process.pid}/task").glob("*"):
            match = re.match(r"CPU (\d+)/", (task / "comm").read_text())
            if match:
                found[int(match[1])] = int(task.name)
    return found
