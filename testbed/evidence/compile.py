"""Compile the BPF program: `python -m testbed.evidence.compile`, at set-up and when the wheel is built.

The object holds no address of this machine's kernel (CO-RE), so one object
serves every kernel with BTF, and every architecture of the same byte order.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from testbed.errors import MissingCapability, TestbedError

SOURCE = Path(__file__).parent / "bpf" / "packet_sizes.bpf.c"
OBJECT = SOURCE.with_suffix(".o")
HEADER = Path("bpf/bpf_helpers.h")


def build(source: Path = SOURCE, target: Path = OBJECT) -> Path:
    """Compile `source`, unless `target` is newer. MissingCapability without clang or headers."""
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return target
    clang = shutil.which("clang")
    if clang is None:
        raise MissingCapability("clang is not installed: apt-get install clang")
    folder = _multiarch_headers(clang)
    # Beside the target and renamed, so that nobody loads a half-written object.
    partial = target.with_suffix(".tmp")
    # No -mcpu=v3: its 32-bit pointer arithmetic is what the verifier of Linux 6.18 refuses.
    command = [clang, "-O2", "-g", "-Wall", "-target", "bpf", f"-I{folder}"]
    _run([*command, "-c", str(source), "-o", str(partial)])
    partial.replace(target)
    return target


def _multiarch_headers(clang: str) -> Path:
    """Where <asm/types.h> is for this machine: clang searches there, but not for the target bpf."""
    triplet = _run([clang, "-print-multiarch"], check=False) or _run([clang, "-dumpmachine"])
    names = [triplet, triplet.replace("-pc-", "-").replace("-unknown-", "-")]
    for folder in (Path("/usr/include") / name for name in names):
        if (folder / "asm" / "types.h").exists():
            break
    else:
        raise MissingCapability("<asm/types.h> is not installed: apt-get install linux-libc-dev")
    if not any((root / HEADER).exists() for root in (folder, Path("/usr/include"))):
        raise MissingCapability("<bpf/bpf_helpers.h> is not installed: apt-get install libbpf-dev")
    return folder


def _run(command: list[str], *, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and check:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise TestbedError(f"{SOURCE.name}: clang failed: {lines[0]}")
    return "" if done.returncode else done.stdout.strip()


if __name__ == "__main__":
    try:
        print(build())
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
