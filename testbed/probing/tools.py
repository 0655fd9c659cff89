"""Probe for programs and libraries and their versions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from testbed.available import output_of, version_in
from testbed.capabilities import Found
from testbed.errors import MissingCapability


def _program(name: str, argv: list[str], before: str, package: str) -> Found:
    """Whether a program runs, and the version that follows the words `before` in what it prints then."""
    try:
        output = output_of(argv, f"Debian: {package}")
    except MissingCapability as error:
        return {name: False}, str(error).removeprefix(f"{argv[0]}: ")
    return {name: version_in(output, before) or True}, ""


def _tool(name: str) -> Found:
    """What a workload's tool says of itself, in the way in which a run uses it."""
    from testbed.workloads import TOOLS

    try:
        version = TOOLS[name].version()
    except MissingCapability as error:
        return {name: False}, str(error).removeprefix(f"{name}: ")
    return {name: version if version[0].isdigit() else True}, ""


def _libbpf() -> Found:
    from testbed.evidence import libbpf

    try:
        return {"libbpf": libbpf.version().removeprefix("v")}, ""
    except MissingCapability as error:
        return {"libbpf": False}, str(error)


# Name -> how to ask it, what it prints before its version, and the Debian package that brings it.
PROGRAMS: dict[str, tuple[list[str], str, str]] = {
    "perf": (["perf", "--version"], "perf version ", "linux-perf"),
    "bpftrace": (["bpftrace", "--version"], "bpftrace ", "bpftrace"),
    "tcpdump": (["tcpdump", "--version"], "tcpdump version ", "tcpdump"),
    "iproute2": (["ip", "-V"], "iproute2-", "iproute2"),
    "ethtool": (["ethtool", "--version"], "ethtool version ", "ethtool"),
    "clang": (["clang", "--version"], "clang version ", "clang"),
    "qemu": (["qemu-system-x86_64", "--version"], "QEMU emulator version ", "qemu-system-x86"),
    "busybox": (["busybox"], "BusyBox ", "busybox-static"),
    "git": (["git", "--version"], "git version ", "git"),
    "xz": (["xz", "--version"], "xz (XZ Utils) ", "xz-utils"),
    "vng": (["vng", "--version"], "virtme-ng ", "virtme-ng"),
    "chromium": (["chromium", "--version"], "Chromium ", "chromium"),
}

FINDERS: dict[str, Callable[[], Found]] = {
    **{name: partial(_tool, name) for name in ("iperf3", "netperf", "kperf")},
    "libbpf": _libbpf,
    **{name: partial(_program, name, *how) for name, how in PROGRAMS.items()},
}
