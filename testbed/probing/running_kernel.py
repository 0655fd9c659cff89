"""Probe the running kernel and the rights of this user, devices aside."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from testbed.available import congestion_control
from testbed.capabilities import Found
from testbed.errors import MissingCapability, TestbedError


def _release() -> Found:
    return {"kernel": os.uname().release}, ""


def _cores() -> Found:
    return {"cores": len(os.sched_getaffinity(0))}, ""


def _root() -> Found:
    return {"root": os.geteuid() == 0}, "run it as root"


def _btf() -> Found:
    readable = os.access("/sys/kernel/btf/vmlinux", os.R_OK)
    return {"btf": readable}, "the kernel was built without CONFIG_DEBUG_INFO_BTF"


def _bpf() -> Found:
    """The packet-size program, loaded and attached; it counts nothing, as it is given no namespace."""
    from testbed.evidence.bpf_sizes import BpfSizes

    try:
        program = BpfSizes()
        try:
            program.watch(())
        finally:
            program.close()
    except TestbedError as error:
        return {"bpf": False}, str(error)
    return {"bpf": True}, ""


def _resegment() -> Found:
    """Declared, not tried: by `testbed.capabilities=resegment` on the kernel's command line."""
    line = Path("/proc/cmdline").read_text(encoding="utf-8", errors="replace")
    declared = re.search(r"(?:^|\s)testbed\.capabilities=(\S+)", line)
    there = declared is not None and "resegment" in declared[1].split(",")
    return {"resegment": there}, "not declared on the kernel's command line (testbed.capabilities=resegment)"


def _congestion_control(name: str) -> Found:
    try:
        congestion_control(name)
    except MissingCapability as error:
        return {name: False}, str(error).partition(": ")[2]
    return {name: True}, ""


FINDERS: dict[str, Callable[[], Found]] = {
    "kernel": _release,
    "cores": _cores,
    "root": _root,
    "resegment": _resegment,
    "btf": _btf,
    "bpf": _bpf,
    **{name: partial(_congestion_control, name) for name in ("cubic", "bbr", "dctcp")},
}
