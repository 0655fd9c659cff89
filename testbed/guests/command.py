"""Commands in a guest: the shell script, and why a command is killed. Common to QEMU and virtme-ng."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed import slowness
from testbed.kernels.cache import BuiltKernel

KEPT_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "VIRTUAL_ENV", "XDG_CACHE_HOME")
# What a guest may write, in bytes; more than any run leaves behind.
FOLDER_LIMIT = 2 << 30
SPACE_LEFT = 64 << 20


def script(
    kernel: BuiltKernel,
    folder: Path,
    argv: Sequence[str],
    *,
    slowdown: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """The shell script that becomes `argv` in the guest, in `cwd` (this process's by default).

    folder: what $TESTBED_RESULTS names. env: set beside PATH, HOME and a few others.
    """
    environment = {key: os.environ[key] for key in KEPT_ENVIRONMENT if key in os.environ}
    environment |= {"TESTBED_RESULTS": str(folder), "TESTBED_KERNEL": kernel.name}
    environment |= {slowness.VARIABLE: f"{slowdown:g}", **(env or {})}
    command = ["exec", "env", "-i", *(f"{key}={value}" for key, value in environment.items()), *argv]
    return f"cd {shlex.quote(str(cwd or Path.cwd()))} || exit 126\n{shlex.join(command)}\n"


def why_full(folder: Path) -> str | None:
    """Why the guest may not write into `folder` any more, or None."""
    used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if used > FOLDER_LIMIT:
        return f"the results folder is full: {used >> 20} MiB, at most {FOLDER_LIMIT >> 20}"
    if shutil.disk_usage(folder).free < SPACE_LEFT:
        return f"no space left where the results folder lies ({folder})"
    return None


def why_over(timeout: float, slowdown: float) -> str:
    """That a command's time of `timeout` seconds, `slowdown` times as long here, is over."""
    return f"ended after {timeout:g} s" + (f" times {slowdown:g}" if slowdown > 1 else "")
