"""Start QEMU and its daemons so that none of them outlives this process."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from testbed.available import programs
from testbed.guests import qemu, ways
from testbed.guests.initramfs import initramfs
from testbed.guests.ways import Way
from testbed.kernels.cache import BuiltKernel
from testbed.privilege import own_namespaces


@dataclass(frozen=True)
class Size:
    """The size of the virtual machine.

    memory_mib: in MiB. pins: machine CPUs, one for each vCPU in turn (none: not
    pinned). append: arguments of the kernel's command line. devices: further arguments of QEMU.
    """

    cores: int = 2
    memory_mib: int = 1024
    pins: tuple[int, ...] = ()
    append: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass
class Launched:
    """A guest that was started: its first process here, and the near ends of its ports."""

    machine: qemu.Machine
    supervisor: subprocess.Popen[bytes]
    control: socket.socket
    port: socket.socket
    terminal: socket.socket
    alive: socket.socket

    def close(self) -> None:
        """Kill the guest and its daemons. Idempotent."""
        for resource in (self.alive, self.control, self.port, self.terminal):
            resource.close()
        # unshare --kill-child takes process 1 of the namespaces with it, and that all others.
        self.supervisor.kill()
        self.supervisor.wait()


def launch(kernel: BuiltKernel, way: Way, size: Size, folder: Path, shared: Path) -> Launched:
    """Start `kernel`. `folder` gets console.log and qemu.log, `shared` is what the guest can write."""
    tools = {qemu.QEMU: "qemu-system-x86", "unshare": "util-linux", "modprobe": "kmod"}
    programs("booting a kernel", tools)
    near, far = zip(*(socket.socketpair() for _ in range(4)), strict=True)
    control, port, terminal, alive = far
    # After the sockets: the near ends have the lowest numbers, and the supervisor's script reuses 3.
    archive = _in_memory(initramfs(kernel, way.transport, _settings(kernel, folder, shared)))
    machine = qemu.Machine(
        name=kernel.name,
        image=kernel.image,
        initramfs=Path(f"/proc/self/fd/{archive.fileno()}"),
        accelerator=way.accelerator,
        one_thread=way.one_thread,
        transport=way.transport,
        shares=(
            qemu.Share("root", Path("/"), writable=False, cached=True),
            qemu.Share("results", shared, writable=True, cached=False),
        ),
        console=folder / "console.log",
        control=control.fileno(),
        channel=port.fileno(),
        terminal=terminal.fileno(),
        cores=size.cores,
        memory_mib=size.memory_mib,
        append=size.append,
        devices=size.devices,
    )
    daemon, help_text = ways.daemon() if way.transport == "virtiofs" else (Path(), "")
    script = qemu.supervisor(machine, qemu.daemons(machine, daemon, help_text))
    with (folder / "qemu.log").open("ab") as log:
        supervisor = subprocess.Popen(
            [*own_namespaces(), "sh", "-c", script],
            stdin=alive,
            stdout=log,
            stderr=log,
            pass_fds=[each.fileno() for each in (control, port, terminal, archive)],
            start_new_session=True,
        )
    for each in (*far, archive):
        each.close()
    return Launched(machine, supervisor, *near)


def _settings(kernel: BuiltKernel, folder: Path, shared: Path) -> dict[str, str]:
    """What init and agent read. keep: what must be seen although the guest has a tmpfs above it."""
    package = Path(__file__).resolve().parents[2]
    keep = [Path.cwd(), Path(sys.prefix), Path(sys.base_prefix), package, kernel.folder]
    covered = [
        path for path in keep if path.parts[1:2] in (("tmp",), ("run",)) or path.is_relative_to("/var/tmp")
    ]
    return {
        "keep": "\n".join(str(path) for path in dict.fromkeys(covered)),
        "shared": str(shared),
        "folder": str(folder),
        "modules": str(kernel.modules),
        "modprobe": shutil.which("modprobe") or "modprobe",
        "hostname": re.sub(r"[^A-Za-z0-9]", "-", kernel.name)[:63],
    }


def _in_memory(content: bytes) -> BinaryIO:
    """A file without a name: nothing to clean up."""
    file = os.fdopen(os.memfd_create("initramfs"), "r+b")
    file.write(content)
    file.flush()
    return file
