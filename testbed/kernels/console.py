"""What a guest's console says about its end."""

from __future__ import annotations

import re

# A kernel that logs one of these does not go on, or not as itself.
FATAL = re.compile(
    r"Kernel panic - not syncing.*"
    r"|Oops: .*"
    r"|general protection fault.*"
    r"|BUG: (?:kernel NULL pointer|unable to handle).*"
    r"|kernel BUG at .*"
    r"|Internal error: .*"
)
NOTABLE = re.compile(
    FATAL.pattern
    + r"|WARNING: .*|BUG: .*|watchdog: BUG.*|rcu: INFO: .*stall.*|INFO: task .* blocked.*|INFO: rcu_.*"
)
TIMESTAMP = re.compile(r"^\[\s*\d+\.\d+\]\s*(?:\[\s*[TC]\d+\]\s*)?")


def fatal(text: str) -> str | None:
    """The first line that says that the kernel has crashed."""
    match = FATAL.search(text)
    return match[0].strip() if match else None


def notable(text: str) -> list[str]:
    """The lines that matter, without their time stamps."""
    return [TIMESTAMP.sub("", line) for line in text.splitlines() if NOTABLE.search(line)]


def why_not_booted(text: str, qemu_log: str) -> str | None:
    """The reason in the words of the guest's init, of the kernel, or of QEMU."""
    if match := re.search(r"testbed: init: (.*)", text):
        return match[1].strip()
    if found := fatal(text):
        return found
    lines = [line for line in qemu_log.splitlines() if line.strip()]
    return lines[0].strip() if lines else None
