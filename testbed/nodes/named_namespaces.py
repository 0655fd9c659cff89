"""Named namespaces in /run/netns, as `ip netns` keeps them."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from testbed.errors import TestbedError

NETNS_RUN_DIR = Path("/run/netns")
MS_BIND, MS_REC, MS_SHARED, MNT_DETACH = 0x1000, 0x4000, 0x100000, 2

_libc = ctypes.CDLL(None, use_errno=True)


def name_namespace(namespace: int, name: str) -> None:
    """Give a namespace a name, by which it outlives this process. TestbedError if the name is taken."""
    _prepare_folder()
    path = NETNS_RUN_DIR / name
    if is_named(name):
        raise TestbedError(
            f"{path}: a namespace of that name is there, without this lab's mark: "
            f"remove it with `ip netns delete {name}`, or choose another lab name with --name"
        )
    path.touch(mode=0o444)  # it may be there: a killed program leaves the file without a namespace
    try:
        _mount(f"/proc/self/fd/{namespace}", path, MS_BIND)
    except TestbedError:
        path.unlink()
        raise


def open_named(name: str) -> int | None:
    """A descriptor of the namespace of that name; None when there is none."""
    try:
        descriptor = os.open(NETNS_RUN_DIR / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if _is_namespace(os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    return None


def is_named(name: str) -> bool:
    """Whether the file of that name is a namespace, and not one that a killed process left empty."""
    try:
        return _is_namespace((NETNS_RUN_DIR / name).stat())
    except FileNotFoundError:
        return False


def _is_namespace(found: os.stat_result) -> bool:
    return found.st_dev != NETNS_RUN_DIR.stat().st_dev


def remove_name(name: str) -> None:
    """Take the name away; the namespace goes when nothing else holds it. Harmless when there is none."""
    path = NETNS_RUN_DIR / name
    while is_named(name):
        if _libc.umount2(os.fsencode(path), MNT_DETACH):
            raise TestbedError(f"cannot unmount {path}: {os.strerror(ctypes.get_errno())}")
    with suppress(FileNotFoundError):
        path.unlink()


def names(prefix: str) -> list[str]:
    """The names in use that begin with `prefix`."""
    if not NETNS_RUN_DIR.is_dir():
        return []
    return sorted(path.name for path in NETNS_RUN_DIR.iterdir() if path.name.startswith(prefix))


def _prepare_folder() -> None:
    """The folder as iproute2 wants it: a shared mount of its own.

    Without it, the first `ip netns add` would mount the folder over itself with
    our names in it, and they would be pinned below that mount for good.
    """
    NETNS_RUN_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
    if _libc.mount(None, os.fsencode(NETNS_RUN_DIR), None, MS_SHARED | MS_REC, None) == 0:
        return
    _mount(NETNS_RUN_DIR, NETNS_RUN_DIR, MS_BIND | MS_REC)
    _mount(None, NETNS_RUN_DIR, MS_SHARED | MS_REC)


def _mount(source: str | Path | None, target: Path, flags: int) -> None:
    raw = None if source is None else os.fsencode(source)
    if _libc.mount(raw, os.fsencode(target), None, ctypes.c_ulong(flags), None):
        raise TestbedError(f"cannot mount {target}: {os.strerror(ctypes.get_errno())}")
