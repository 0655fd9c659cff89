"""Check that programs, libraries and kernel parts work; errors say what is missing and how to get it.

Nothing is concluded from a file that merely exists: one that does not load or run is lacking too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import MissingCapability


def output_of(argv: Sequence[str], how_to_get: str) -> str:
    """What a program prints (stdout, then stderr) when it ends well. MissingCapability otherwise.

    It is looked for where an administrator's programs are, too.
    """
    path = shutil.which(argv[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise MissingCapability(f"{argv[0]}: not installed, or not in PATH ({how_to_get})")
    try:
        done = subprocess.run(
            [path, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingCapability(f"{path} does not run: {error} ({how_to_get})") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        why = said[-1] if said else f"exit status {done.returncode}"
        raise MissingCapability(f"{path} does not run: {why} ({how_to_get})")
    return done.stdout + done.stderr


def programs(purpose: str, packages: Mapping[str, str], files: Mapping[str, str] | None = None) -> None:
    """MissingCapability where `purpose` lacks a program or one of `files`, or a program does not run.

    Both: name -> the Debian package that has it. Each program must know --version.
    """
    missing = {name: package for name, package in packages.items() if not shutil.which(name)}
    missing |= {name: package for name, package in (files or {}).items() if not Path(name).exists()}
    if missing:
        install = " ".join(dict.fromkeys(missing.values()))
        raise MissingCapability(f"{purpose} needs {', '.join(missing)}: apt-get install {install}")
    for name, package in packages.items():
        output_of([name, "--version"], f"apt-get install --reinstall {package}")


def version_in(output: str, before: str) -> str | None:
    """The dotted number that follows `before` in what a program printed; None where it says none."""
    found = re.search(rf"{re.escape(before)}v?(\d+(?:\.\d+)+)", output)
    return found[1] if found else None


def library(name: str, functions: Iterable[str], how_to_get: str) -> ctypes.CDLL:
    """The shared library `name`, which has these functions.

    MissingCapability where it does not load, with the loader's reason, or lacks one.
    """
    try:
        loaded = ctypes.CDLL(name, use_errno=True)
    except OSError as error:
        raise MissingCapability(f"{error} ({how_to_get})") from None
    for function in functions:
        if not hasattr(loaded, function):
            raise MissingCapability(f"{name} has no {function}, it is of another version ({how_to_get})")
    return loaded


def congestion_control(name: str) -> None:
    """MissingCapability where the kernel does not take TCP's congestion control `name`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        try:
            tried.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            option = f" (kernel option CONFIG_TCP_CONG_{name.upper()})" if error.errno == errno.ENOENT else ""
            raise MissingCapability(
                f"congestion control {name}: the kernel says '{error.strerror}'{option}"
            ) from None


def writable(folder: Path, size: int, what: str) -> None:
    """MissingCapability where `what` (named in the error) cannot have a file of `size` bytes in `folder`."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(size))
            file.flush()
    except OSError as error:
        raise MissingCapability(
            f"{what} go to {folder}: {error.strerror}; set TMPDIR to a folder that can be written"
        ) from None


@contextmanager
def scratch(prefix: str = "testbed-") -> Iterator[Path]:
    """A folder for temporary files, gone after the block. MissingCapability where none can be made."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise MissingCapability(
            f"no folder for temporary files: {error.strerror}; set TMPDIR to one that can be written"
        ) from None
    with folder as name:
        yield Path(name)
