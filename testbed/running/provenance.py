"""The machine and tool versions of a run, for run.json."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import psutil

from testbed import __version__
from testbed.records.run import Machine

_CPU = Path("/sys/devices/system/cpu")


def machine() -> Machine:
    """This machine. A fact that the kernel does not tell is None or empty."""
    return Machine(
        cpu_model=_cpu_model(),
        cores=os.cpu_count() or 0,
        memory_bytes=psutil.virtual_memory().total,
        virtualisation=_virtualisation(),
        governor=_text(_CPU / "cpu0/cpufreq/scaling_governor"),
        smt={"1": True, "0": False}.get(_text(_CPU / "smt/active") or ""),
    )


def tool_versions() -> dict[str, str]:
    """Name to version of what measures here; a tool that is not installed is left out."""
    from testbed.probing import find

    found = find(_TOOLS).values
    versions = {name: str(found[name]) for name in _TOOLS if found[name]}
    return {"testbed": __version__, "python": platform.python_version(), **versions}


_TOOLS = ("iperf3", "netperf", "iproute2", "ethtool", "perf", "qemu", "libbpf")


def _cpu_model() -> str:
    for line in (_text(Path("/proc/cpuinfo")) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.machine()


def _virtualisation() -> str | None:
    """kvm, qemu... as systemd-detect-virt says, else the board's vendor when a hypervisor shows."""
    if shutil.which("systemd-detect-virt"):
        # The hypervisor first: a file of a container's may be seen in a guest too.
        for kind in ("--vm", "--container"):
            done = subprocess.run(["systemd-detect-virt", kind], capture_output=True, text=True, check=False)
            if (said := done.stdout.strip()) and said != "none":
                return said
    if re.search(r"^flags\s*:.*\bhypervisor\b", _text(Path("/proc/cpuinfo")) or "", re.MULTILINE):
        return _text(Path("/sys/class/dmi/id/sys_vendor")) or "hypervisor"
    return None


def _text(path: Path) -> str | None:
    return _bytes(path).decode(errors="replace").strip() or None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
