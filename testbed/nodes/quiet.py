"""Make nodes quiet: no duplicate address detection, no router solicitation.

What they sent would be counted as evidence. A topology's sysctls can set it back.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Lock

from testbed.errors import TestbedError
from testbed.netlink.mounts import detached_mount

SETTINGS = {"accept_dad": b"0", "router_solicitations": b"0"}
NAMESPACES_PER_MOUNT = 100

_lock = Lock()
_mount = -1
_used = 0


def be_quiet() -> None:
    """Make the calling thread's namespace quiet, for the devices that it will have."""
    with suppress(FileNotFoundError):  # a kernel without IPv6 has none of it
        folder = os.open("sys/net/ipv6/conf/default", os.O_RDONLY | os.O_CLOEXEC, dir_fd=_proc())
        try:
            for name, value in SETTINGS.items():
                file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
                try:
                    os.write(file, value)
                finally:
                    os.close(file)
        finally:
            os.close(folder)


def _proc() -> int:
    """A proc file system that few namespaces have been looked up in.

    The kernel finds a namespace's own /proc/sys/net/ipv6 by going through those
    of all namespaces seen in the same mount: with a thousand of them that takes
    longer than everything else about a node.
    """
    global _mount, _used
    with _lock:
        if _used % NAMESPACES_PER_MOUNT == 0:
            if _mount >= 0:
                os.close(_mount)
            try:
                _mount = detached_mount("proc")
            except TestbedError:  # not allowed in a user namespace that does not see all of /proc
                _mount = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        _used += 1
        return _mount
