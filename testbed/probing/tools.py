"""Which programs and libraries are installed, and in which version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial

from testbed.capabilities import Found
from testbed.errors import TestbedError


def _program(name: str, argv: list[str], package: str) -> Found:
    """A program's version: the first dotted number that it prints when asked."""
    path = shutil.which(argv[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        return {name: False}, f"not installed (Debian: {package})"
    try:
        asked = subprocess.run([path, *argv[1:]], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {name: False}, f"{path} does not run: {error}"
    version = re.search(r"\d+(?:\.\d+)+", asked.stdout + asked.stderr)
    if asked.returncode and not version:
        return {name: False}, f"{path} does not run: exit status {asked.returncode}"
    return {name: version[0] if version else True}, ""


def _libbpf() -> Found:
    from testbed.evidence import libbpf

    try:
        return {"libbpf": libbpf.version().removeprefix("v")}, ""
    except TestbedError as error:
        return {"libbpf": False}, str(error)


def _kperf() -> Found:
    from testbed.workloads import kperf

    missing = kperf.missing_programs()
    if missing:
        return {"kperf": False}, f"{' and '.join(missing)} not in PATH ({kperf.HOW_TO_GET})"
    return {"kperf": True}, ""


# Name -> how to ask it, and the Debian package that brings it.
PROGRAMS: dict[str, tuple[list[str], str]] = {
    "iperf3": (["iperf3", "--version"], "iperf3"),
    "netperf": (["netperf", "-V"], "netperf, in the component non-free before Debian 13"),
    "perf": (["perf", "--version"], "linux-perf"),
    "bpftrace": (["bpftrace", "--version"], "bpftrace"),
    "tcpdump": (["tcpdump", "--version"], "tcpdump"),
    "iproute2": (["ip", "-V"], "iproute2"),
    "ethtool": (["ethtool", "--version"], "ethtool"),
    "clang": (["clang", "--version"], "clang"),
    "qemu": (["qemu-system-x86_64", "--version"], "qemu-system-x86"),
    "busybox": (["busybox"], "busybox-static"),
    "git": (["git", "--version"], "git"),
    "xz": (["xz", "--version"], "xz-utils"),
    "vng": (["vng", "--version"], "virtme-ng"),
    "chromium": (["chromium", "--version"], "chromium"),
}

FINDERS: dict[str, Callable[[], Found]] = {
    "libbpf": _libbpf,
    "kperf": _kperf,
    **{name: partial(_program, name, *how) for name, how in PROGRAMS.items()},
}
