"""Ways to boot a kernel on this machine: accelerator (kvm, tcg) and folder sharing (9p, virtiofs).

Whether KVM works is found by booting: its device may open, and even create a
machine, and yet no kernel lives in it. What worked is remembered.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed.available import output_of
from testbed.errors import MissingCapability
from testbed.kernels import cache
from testbed.kernels.cache import BuiltKernel

KVM = Path("/dev/kvm")
# QEMU 7's daemon, then where Debian 13 puts the later one.
DAEMONS = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
GET_DAEMON = "apt-get install virtiofsd (on Debian 12 qemu-system-common has it)"
# How much longer software emulation may take.
EMULATED = 6.0


@dataclass(frozen=True)
class Way:
    """accelerator: `kvm` or `tcg`. transport: `9p` or `virtiofs`.

    one_thread: emulate all vCPUs in one thread, where QEMU itself failed with a thread for each.
    """

    accelerator: str
    transport: str
    one_thread: bool = False

    @property
    def slowdown(self) -> float:
        """What time limits are multiplied by."""
        return 1.0 if self.accelerator == "kvm" else EMULATED

    def __str__(self) -> str:
        return f"{self.accelerator}, {self.transport}{', one thread' if self.one_thread else ''}"


def candidates(kernel: BuiltKernel) -> list[Way]:
    """The ways to try, the likeliest first. MissingCapability when the kernel can share no folders here."""
    transports = transports_of(kernel.config(), have_daemon=_find_daemon() is not None)
    if not transports:
        if _find_daemon() is None:
            raise MissingCapability(f"{kernel.name} has no 9P, and virtiofs needs its daemon: {GET_DAEMON}")
        raise MissingCapability(
            f"{kernel.name} has neither 9P nor virtiofs: set CONFIG_9P_FS, CONFIG_NET_9P_VIRTIO"
        )
    return [Way(accelerator, transport) for accelerator in accelerators() for transport in transports]


def transports_of(config: dict[str, str], *, have_daemon: bool) -> list[str]:
    """How the kernel can see folders; what is built in comes before what needs modules."""
    p9 = {config.get(f"CONFIG_{name}", "n") for name in ("9P_FS", "NET_9P", "NET_9P_VIRTIO")}
    virtio = {config.get(f"CONFIG_{name}", "n") for name in ("FUSE_FS", "VIRTIO_FS")}
    found = {}
    for name, options in (("9p", p9), ("virtiofs", virtio if have_daemon else {"n"})):
        if "n" not in options:
            found[name] = "m" in options
    return sorted(found, key=lambda name: found[name])


def accelerators() -> list[str]:
    """`kvm` where it may work (unless it is known not to), and `tcg`, which always does."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return ["tcg"]
    known = _memory().get(_machine_key())
    if known:
        return [str(known)] if known == "tcg" else [str(known), "tcg"]
    return ["kvm", "tcg"]


def remember(way: Way) -> None:
    """Keep which accelerator booted a kernel, for as long as this machine is up."""
    memory = _memory()
    if memory.get(_machine_key()) != way.accelerator:
        path = _memory_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({_machine_key(): way.accelerator}))


def daemon() -> tuple[Path, str]:
    """The virtiofs daemon and its help text, which tells what options it takes."""
    found = _find_daemon()
    if found is None:
        raise MissingCapability(f"virtiofs needs its daemon: {GET_DAEMON}")
    if str(found) == DAEMONS[0] and os.geteuid() != 0 and os.getgroups():
        # It gives up its groups, and a user namespace that a user made forbids that.
        raise MissingCapability(
            f"{found} runs as root only: use sudo, or a kernel with 9P "
            "(testbed kernel fetch VERSION --flavour generic)"
        )
    return found, output_of([str(found), "--help"], "apt-get install --reinstall virtiofsd")


def record(way: Way) -> dict[str, str]:
    """The way as JSON values."""
    return asdict(way)


def _find_daemon() -> Path | None:
    named = shutil.which("virtiofsd")
    places = [*([named] if named else []), *DAEMONS]
    return next((Path(place) for place in places if os.access(place, os.X_OK)), None)


def _machine_key() -> str:
    """This boot of this machine: another one may have KVM."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _memory_file() -> Path:
    return cache.cache() / "accelerator.json"


def _memory() -> dict[str, str]:
    try:
        remembered: dict[str, str] = json.loads(_memory_file().read_text())
    except (OSError, ValueError):
        return {}
    return remembered
