"""Commands that need root say so in one line."""

import os

from testbed.errors import MissingCapability


def need_root(command: str, without: str) -> None:
    """MissingCapability unless this process is root; `without` says what works without it."""
    if os.geteuid() != 0:
        raise MissingCapability(f"{command}: needs root (network namespaces, BPF): use sudo; {without}")
