"""Detached mounts of sysfs and procfs that show the calling thread's namespace."""

from __future__ import annotations

import ctypes
import os

from testbed.errors import TestbedError

# The same numbers on every architecture (include/uapi/asm-generic/unistd.h).
SYS_FSOPEN, SYS_FSCONFIG, SYS_FSMOUNT = 430, 431, 432
FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC, FSCONFIG_CMD_CREATE = 1, 1, 6

_libc = ctypes.CDLL(None, use_errno=True)


def detached_mount(kind: str) -> int:
    """The root of a new mount of `kind` (sysfs, proc), to open files in by `dir_fd`; gone when closed."""
    context = _call(SYS_FSOPEN, kind.encode(), FSOPEN_CLOEXEC)
    try:
        _call(SYS_FSCONFIG, context, FSCONFIG_CMD_CREATE, None, None, 0)
        return _call(SYS_FSMOUNT, context, FSMOUNT_CLOEXEC, 0)
    finally:
        os.close(context)


def _call(number: int, *arguments: int | bytes | None) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise TestbedError(f"cannot mount a file system: {os.strerror(ctypes.get_errno())}")
    return result
