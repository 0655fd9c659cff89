"""Read and write sysctls of a network namespace below /proc/sys/net."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import InputError

ROOT = Path("/proc/sys")
PER_DEVICE = ("conf", "neigh")  # the folders that have one for each device
NO_DEVICES = ("all", "default")  # what they have beside those

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_MOST = 4096  # bytes read, a page: no sysctl of a namespace is longer


def parts(name: str) -> tuple[str, ...]:
    """The parts below /proc/sys of `net.ipv4.conf.eth0.forwarding` or `net/ipv4/conf/eth0.100/forwarding`.

    The separator that stands first separates, as in sysctl(8); the other one, in a
    part, stands for a dot: `net.ipv4.conf.eth0/100.forwarding`. The parts are words
    and devices' names, so that none leads anywhere but down.
    ValueError for what is no sysctl of a network namespace.
    """
    separator = next((letter for letter in name if letter in "./"), ".")
    words = [word.replace("/", ".") for word in name.split(separator)]
    named = all(
        _WORD.fullmatch(word) or (above in PER_DEVICE and _is_folder(word))
        for above, word in zip(["", *words], words, strict=False)
    )
    if not named or words[0] != "net" or len(words) < 2:
        raise ValueError(f"'{name}' is not a sysctl of a network namespace, such as net.ipv4.ip_forward")
    return tuple(words)


def read_sysctl(name: str) -> str:
    """A sysctl of the calling thread's namespace. InputError when it has none of that name."""
    try:
        with _opened(ROOT, parts(name), os.O_RDONLY) as file:
            return " ".join(os.read(file, _MOST).decode().split())
    except OSError as error:
        raise InputError(f"sysctl {name}: {_reason(error)}") from None


def write_sysctl(name: str, value: str) -> None:
    """Set a sysctl of the calling thread's namespace. InputError when the kernel refuses it."""
    try:
        with _opened(ROOT, parts(name), os.O_WRONLY) as file:
            os.write(file, value.encode())
    except OSError as error:
        raise InputError(f"sysctl {name} = {value}: {_reason(error)}") from None


@contextmanager
def _opened(root: Path, names: Sequence[str], flags: int) -> Iterator[int]:
    """A descriptor of the file below `root`, where no part on the way may be a link."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names[:-1]:
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(names[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        yield file
    finally:
        os.close(file)


def _is_folder(word: str) -> bool:
    """Whether it is a name of 15 bytes at most for something right here, as a device's is."""
    octets = word.encode("utf-8", "surrogatepass")
    return word.isprintable() and "/" not in word and word not in (".", "..") and 0 < len(octets) <= 15


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "a network namespace on this kernel has no such sysctl"
    return f"kernel: {os.strerror(error.errno or 0)}"
