"""Make and enter network namespaces without fork or name; they end when their descriptors close."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.errors import MissingCapability, TestbedError

CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def new_namespace() -> int:
    """A descriptor of a new, empty network namespace. The caller closes it, and with it the namespace.

    MissingCapability without CAP_SYS_ADMIN.
    """
    home = own_namespace()
    try:
        _check(_libc.unshare(CLONE_NEWNET), "create a network namespace")
        try:
            return own_namespace()
        finally:
            _enter(home)
    finally:
        os.close(home)


def own_namespace() -> int:
    """A descriptor of the network namespace that the calling thread is in."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def entered(namespace: int) -> Iterator[None]:
    """The calling thread is in `namespace` within the block. Other threads stay where they are."""
    home = own_namespace()
    try:
        _enter(namespace)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def inode(namespace: int) -> int:
    """The inode number, by which BPF programs and `lsns` know the namespace."""
    return os.fstat(namespace).st_ino


def _enter(namespace: int) -> None:
    _check(_libc.setns(namespace, CLONE_NEWNET), "enter a network namespace")


def _check(result: int, what: str) -> None:
    if result == 0:
        return
    error = ctypes.get_errno()
    text = os.strerror(error)
    if error == 1:
        raise MissingCapability(f"cannot {what}: {text}; run as root")
    raise TestbedError(f"cannot {what}: {text}")
