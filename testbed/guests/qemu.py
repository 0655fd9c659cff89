"""The command line of QEMU for a guest, and of the daemons beside it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

QEMU = "qemu-system-x86_64"
# Gets a tmpfs in the guest's own mount namespace. It exists on every kernel, the procfs is
# that namespace's own, and the guest, which has another, misses nothing.
SOCKETS = Path("/proc/fs")
LOCKS = "/run/virtiofsd"


@dataclass(frozen=True)
class Share:
    """A folder of this machine that the guest sees.

    tag: what the guest mounts it by. cached: the guest may keep what it has read.
    """

    tag: str
    path: Path
    writable: bool
    cached: bool


@dataclass(frozen=True)
class Machine:
    """A virtual machine.

    accelerator: `kvm` or `tcg`. transport: `9p` or `virtiofs`. memory_mib: in MiB.
    one_thread: emulate all vCPUs in one thread (see ways.Way).
    control, channel: descriptors of the sockets behind the agent's two ports.
    sockets: an existing folder, which a tmpfs for the daemons' sockets is to cover.
    """

    name: str
    image: Path
    initramfs: Path
    accelerator: str
    transport: str
    shares: tuple[Share, ...]
    console: Path
    control: int
    channel: int
    terminal: int
    sockets: Path = SOCKETS
    cores: int = 2
    memory_mib: int = 1024
    one_thread: bool = False
    append: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


def command_line(machine: Machine) -> str:
    """The kernel's command line."""
    parts = [
        "console=ttyS0",
        "earlyprintk=serial,ttyS0",
        # Not quiet: warnings must reach the console.
        "loglevel=7",
        "printk.devkmsg=on",
        "panic=-1",
        "rdinit=/init",
        "random.trust_cpu=on",
        f"testbed.share={machine.transport}",
        *machine.append,
    ]
    return " ".join(parts)


def _emulation(machine: Machine) -> str:
    return f"tcg,thread={'single' if machine.one_thread else 'multi'}"


def arguments(machine: Machine) -> list[str]:
    """QEMU's own command line."""
    cpu = "host" if machine.accelerator == "kvm" else "max"
    accelerator = "kvm" if machine.accelerator == "kvm" else _emulation(machine)
    memory = f"{machine.memory_mib}M"
    return [
        *(QEMU, "-name", f"{machine.name},debug-threads=on", "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot"),
        *("-machine", "q35,memory-backend=mem", "-accel", accelerator, "-cpu", cpu),
        *("-smp", str(machine.cores), "-m", memory),
        # virtiofs daemons read the guest's memory, so it is shared.
        *("-object", f"memory-backend-memfd,id=mem,size={memory},share=on"),
        *("-kernel", str(machine.image), "-initrd", str(machine.initramfs)),
        *("-append", command_line(machine)),
        *("-chardev", f"file,id=console,path={_escaped(machine.console)}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=terminal,fd={machine.terminal}", "-serial", "chardev:terminal"),
        *("-device", "virtio-serial-pci,max_ports=4"),
        *("-chardev", f"socket,id=control,fd={machine.control}"),
        *("-device", "virtserialport,nr=1,chardev=control,name=testbed.control"),
        *("-chardev", f"socket,id=channel,fd={machine.channel}"),
        *("-device", "virtserialport,nr=2,chardev=channel,name=testbed.channel"),
        *("-device", "virtio-rng-pci", "-device", "pvpanic-pci", "-action", "panic=exit-failure"),
        *(word for share in machine.shares for word in _share(machine, share)),
        *machine.devices,
    ]


def daemons(machine: Machine, daemon: Path, help_text: str) -> list[list[str]]:
    """The virtiofs daemons to start beside QEMU: none over 9p, which QEMU serves itself."""
    if machine.transport == "9p":
        return []
    return [daemon_arguments(daemon, help_text, share, machine.sockets) for share in machine.shares]


def daemon_arguments(daemon: Path, help_text: str, share: Share, sockets: Path) -> list[str]:
    """One virtiofs daemon's command line, for QEMU 7's own daemon in C or the later one in Rust."""
    socket = str(sockets / f"{share.tag}.sock")
    if "--shared-dir" in help_text:
        cache = ["--cache", "always" if share.cached else "never"]
        read_only = ["--readonly"] if "--readonly" in help_text and not share.writable else []
        source = ["--shared-dir", str(_served(share, sockets)), "--sandbox", "none"]
        return [str(daemon), "--socket-path", socket, *source, *cache, *read_only]
    options = [
        f"source={_escaped(_served(share, sockets))}",
        f"cache={'always' if share.cached else 'none'}",
        "sandbox=chroot",
    ]
    return [
        str(daemon),
        "-f",
        f"--socket-path={socket}",
        *(word for each in options for word in ("-o", each)),
    ]


def supervisor(machine: Machine, daemon_lines: Sequence[Sequence[str]]) -> str:
    """The shell script that is process 1 of the guest's own namespaces.

    It starts the daemons and QEMU, and ends when QEMU does, or when its stdin
    does, which is when this program ends, however it does. With process 1 go all
    others, its mounts, and the sockets, which lie on a tmpfs of its own.
    """
    sockets = shlex.quote(str(machine.sockets))
    lines = ["set -e", "exec 3<&0", f"mount -t tmpfs -o mode=700 tmpfs {sockets}"]
    for share in machine.shares if daemon_lines else ():
        served = shlex.quote(str(_served(share, machine.sockets)))
        source = shlex.quote(str(share.path))
        lines.append(f"mkdir {served}; mount --rbind {source} {served}")
        if not share.writable:
            # The daemon in C has no read-only switch.
            lines.append(f"mount -o remount,bind,ro {served}")
    if daemon_lines:
        # Where the daemon in C keeps a lock for each path of a socket: guests beside each
        # other have the same paths, so each gets a folder of its own, which goes with it.
        # Only root may make one below /run; others get a /run of their own.
        lines.append(f"mkdir -p {LOCKS} 2>/dev/null || {{ mount -t tmpfs tmpfs /run && mkdir {LOCKS}; }}")
        lines.append(f"mount -t tmpfs tmpfs {LOCKS}")
    for number, line in enumerate(daemon_lines):
        lines.append(f"{shlex.join(line)} >/dev/null 2>{sockets}/{number}.log & daemon{number}=$!")
    for number, share in enumerate(machine.shares if daemon_lines else ()):
        ended = f"kill -0 $daemon{number} || {{ cat {sockets}/{number}.log >&2; exit 1; }}"
        lines.append(f"while ! [ -S {sockets}/{share.tag}.sock ]; do {ended}; sleep 0.05; done")
    lines += [
        f"{shlex.join(arguments(machine))} & qemu=$!",
        # Nobody ever writes: this waits for the end of the other side.
        "{ read -r _ <&3 || kill -KILL $qemu; } &",
        "wait $qemu",
    ]
    return "\n".join(lines)


def _share(machine: Machine, share: Share) -> list[str]:
    if machine.transport == "9p":
        options = (
            f"local,id={share.tag},path={_escaped(share.path)},security_model=passthrough,multidevs=remap"
        )
        read_only = "" if share.writable else ",readonly=on"
        return [
            *("-fsdev", options + read_only),
            *("-device", f"virtio-9p-pci,fsdev={share.tag},mount_tag={share.tag}"),
        ]
    socket = _escaped(machine.sockets / f"{share.tag}.sock")
    return [
        *("-chardev", f"socket,id=fs-{share.tag},path={socket}"),
        *("-device", f"vhost-user-fs-pci,chardev=fs-{share.tag},tag={share.tag}"),
    ]


def _served(share: Share, sockets: Path) -> Path:
    return sockets / f"serve-{share.tag}"


def _escaped(path: Path) -> str:
    """A path inside a QEMU option, where a comma is doubled."""
    return str(path).replace(",", ",,")
