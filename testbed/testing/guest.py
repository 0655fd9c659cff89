"""Run tests on another kernel: by pytest in a guest that booted it, reported by this machine's pytest."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from testbed.errors import TestbedError

if TYPE_CHECKING:
    from testbed.guests.vm import Vm

TEST_S = 120.0  # for one test, longer where everything is slow
_IN_GUEST = "TESTBED_KERNEL"  # what every command in a guest has in its environment

Outcome = Literal["passed", "failed", "skipped"]


def kernel_of(item: pytest.Item) -> str | None:
    """The kernel that the test is marked for; None where it runs here, as it does in the guest itself."""
    marker = item.get_closest_marker("kernel")
    return None if marker is None or os.environ.get(_IN_GUEST) else str(marker.args[0])


class Guests:
    """The guests of a session: one for each kernel, booted when the first test needs it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._booted: dict[str, Vm] = {}

    def run(self, kernel: str, item: pytest.Item) -> tuple[Outcome, str]:
        """Run one test on `kernel`: how it ended, and the output of the guest's pytest."""
        try:
            guest = self._guest(kernel)
        except TestbedError as error:
            return "skipped", f"kernel {kernel}: {error}"
        words = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
        if not item.config.pluginmanager.has_plugin("testbed"):  # named by hand, not by its entry point
            words += ["-p", "testbed.testing.plugin"]
        result = guest.run([sys.executable, *words, item.nodeid], timeout=TEST_S, cwd=item.config.rootpath)
        output = result.stdout.read_text() + result.stderr.read_text()
        if result.status != 0:
            return "failed", f"on {kernel}: {result.reason or ''}\n{output}"
        skipped = re.search(r"^SKIPPED \[1\] \S+ (.+)$", output, re.MULTILINE)
        return ("skipped", f"on {kernel}: {skipped[1]}") if skipped else ("passed", output)

    def close(self) -> None:
        """Take the guests down."""
        self._stack.close()

    def _guest(self, kernel: str) -> Vm:
        if kernel not in self._booted or not self._booted[kernel].alive:
            from testbed.guests.vm import Vm
            from testbed.kernels.cache import find

            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="testbed-pytest-"))
            self._booted[kernel] = self._stack.enter_context(Vm(find(kernel), Path(folder) / "guest"))
        return self._booted[kernel]


def report(item: pytest.Item, outcome: Outcome, words: str, seconds: float) -> pytest.TestReport:
    """The report of a test that a guest carried out."""
    longrepr: tuple[str, int, str] | str | None = words if outcome == "failed" else None
    if outcome == "skipped":
        longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {words}")
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome=outcome,
        longrepr=longrepr,
        when="call",
        duration=seconds,
    )
