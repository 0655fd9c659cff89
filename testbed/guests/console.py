"""Find the reason of a guest's crash or failed boot in its console log."""

from __future__ import annotations

import re

from testbed.evidence.kernel_log_rules import crash, findings


def fatal(text: str) -> str | None:
    """The first line that says that the kernel has crashed."""
    return crash(text.splitlines())


def notable(text: str) -> list[str]:
    """The lines that matter, without their time stamps."""
    return [found.line for found in findings(text.splitlines())]


def why_not_booted(text: str, qemu_log: str) -> str | None:
    """The reason of a failed boot, as the guest's init, the kernel or QEMU printed it."""
    if match := re.search(r"testbed: init: (.*)", text):
        return match[1].strip()
    if found := fatal(text):
        return found
    lines = [line for line in qemu_log.splitlines() if line.strip()]
    return lines[0].strip() if lines else None


def emulator_failed(qemu_log: str) -> bool:
    """Whether QEMU ended by a failed assertion of its own, which is no fault of the guest."""
    return re.search(r"Assertion .*failed|assertion failed|Bail out!", qemu_log) is not None
