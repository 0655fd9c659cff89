"""Write files and folders atomically: they get their name when they are complete.

A folder is filled under a hidden name, by a program that holds a lock (flock) on it.
The lock ends with its holder, however that ends: who can take it may remove what a killed
program left.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SUFFIX = ".unfinished"


@contextmanager
def unfinished(parent: Path, name: str) -> Iterator[Path]:
    """A new hidden folder below `parent`, to be filled and renamed within the block; else it is removed.

    Those that killed programs left below `parent` are removed first. OSError where none can be made.
    """
    folder, lock = _make(parent, f".{name}.{secrets.token_hex(4)}{_SUFFIX}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A hidden name to write a file at, which then becomes `path`: a reader sees the old or the new one.

    A link that stands at `path` is replaced, never followed. Nothing stays of a block that fails. OSError.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    try:
        yield scratch
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file in one step, see whole_file. `durable`: it is on the disk when this returns. OSError."""
    with whole_file(path) as scratch, scratch.open("xb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def _make(parent: Path, name: str) -> tuple[Path, int]:
    """The folder, and the descriptor that holds its lock."""
    above = _open(parent)
    try:
        # Held until the new folder has its own lock: without it, it would look like a leftover.
        if _lock(above, fcntl.LOCK_EX):
            _remove_leftovers(parent)
        folder = parent / name
        folder.mkdir()
        descriptor = _open(folder)
        _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return folder, descriptor
    finally:
        os.close(above)


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f".*{_SUFFIX}"):
        try:
            descriptor = _open(folder)
        except OSError:  # gone meanwhile, or not a folder
            continue
        if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock(descriptor: int, how: int) -> bool:
    """Whether the lock is ours now; not where another holds it, or the file system has no such locks."""
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        return False
    return True
