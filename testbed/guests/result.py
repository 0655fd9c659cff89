"""The result of a boot, or of a command in a guest."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from testbed.errors import TestbedError
from testbed.outcome import Outcome

# What the kernel's selftests exit with when they cannot run (tools/testing/selftests/kselftest.h).
SKIP_STATUS = 4


@dataclass(frozen=True)
class Result:
    """The end of one command in a guest.

    status: the command's exit status; None where it has none (timeout, crash).
    reason: why the outcome is neither pass nor the command's own failure.
    kernel_log: the lines logged meanwhile that matter. taint: /proc/sys/kernel/tainted
    before and after (None: the guest was gone).
    """

    outcome: Outcome
    status: int | None
    seconds: float
    stdout: Path
    stderr: Path
    reason: str | None = None
    kernel_log: list[str] = field(default_factory=list)
    taint_before: int = 0
    taint_after: int | None = None

    def record(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}


class BootFailed(TestbedError):
    """The guest never became ready."""

    outcome = Outcome.BOOT_FAILED


def of_status(status: int) -> Outcome:
    """The outcome that an exit status stands for."""
    if status == 0:
        return Outcome.PASS
    return Outcome.SKIP if status == SKIP_STATUS else Outcome.FAIL
