"""Check for root with an error of one line, and enter user namespaces where these suffice."""

from __future__ import annotations

import os

from testbed.errors import MissingCapability


def need_root(command: str, without: str) -> None:
    """MissingCapability unless this process is root; `without` says what works without it."""
    if os.geteuid() != 0:
        raise MissingCapability(f"{command}: needs root (network namespaces, BPF): use sudo; {without}")


def own_namespaces() -> list[str]:
    """How to enter namespaces of one's own, whose first process ends all others when it ends."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
