"""The kernel that this program runs on: its record, and the configuration that it was built with."""

from __future__ import annotations

import gzip
import platform
import re
from pathlib import Path

from testbed.kernels.cache import config_hash
from testbed.records.run import Kernel


def this_kernel() -> Kernel:
    """The running kernel."""
    config = kernel_config()
    uname = platform.uname()
    return Kernel(
        release=uname.release,
        version=uname.version,
        config_sha256=config_hash(config.decode(errors="replace")) if config else None,
        cmdline=_bytes(Path("/proc/cmdline")).decode(errors="replace").strip(),
        build_id=build_id(_bytes(Path("/sys/kernel/notes"))),
    )


def kernel_config() -> bytes | None:
    """The running kernel's configuration as text, None where neither /proc nor /boot has it."""
    packed = _bytes(Path("/proc/config.gz"))
    return gzip.decompress(packed) if packed else _bytes(Path(f"/boot/config-{platform.release()}")) or None


def build_id(notes: bytes) -> str | None:
    """The GNU build id among the ELF notes of /sys/kernel/notes."""
    found = re.search(rb"\x14\0\0\0\x03\0\0\0GNU\0(.{20})", notes, re.DOTALL)
    return found[1].hex() if found else None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
