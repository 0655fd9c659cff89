"""Become another program inside a namespace, as `ip netns exec` does: /sys shows its devices."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import NoReturn

from testbed.errors import MissingCapability, TestbedError

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_SLAVE, MNT_DETACH = 0x4000, 0x80000, 2

_libc = ctypes.CDLL(None, use_errno=True)


def become(namespace: int, argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Replace this process by `argv` in `namespace`. MissingCapability when the program is not there."""
    _check(_libc.setns(namespace, CLONE_NEWNET), "enter the namespace")
    _check(_libc.unshare(CLONE_NEWNS), "make a mount namespace")
    _check(_libc.mount(b"", b"/", b"none", ctypes.c_ulong(MS_SLAVE | MS_REC), None), "keep mounts apart")
    _libc.umount2(b"/sys", MNT_DETACH)
    _check(_libc.mount(b"testbed", b"/sys", b"sysfs", ctypes.c_ulong(0), None), "mount /sys")
    try:
        os.execvpe(argv[0], list(argv), {**os.environ, **(env or {})})
    except FileNotFoundError:
        raise MissingCapability(f"{argv[0]}: not installed, or not in PATH") from None
    except OSError as error:
        raise TestbedError(f"cannot run {argv[0]}: {os.strerror(error.errno or 0)}") from None


def _check(result: int, what: str) -> None:
    if result:
        raise TestbedError(f"cannot {what}: {os.strerror(ctypes.get_errno())}")
