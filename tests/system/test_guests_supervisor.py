"""The shell script that starts a guest's daemons and QEMU, where a daemon does not start."""

import subprocess
from pathlib import Path

from testbed.guests import qemu
from testbed.guests.launch import own_namespaces


def test_a_daemon_that_ends_at_once_ends_the_start_with_its_reason(tmp_path):
    machine = qemu.Machine(
        name="k",
        image=tmp_path / "vmlinuz",
        initramfs=tmp_path / "initramfs",
        accelerator="tcg",
        transport="virtiofs",
        shares=(qemu.Share("root", tmp_path, writable=True, cached=True),),
        console=tmp_path / "console.log",
        control=5,
        channel=6,
        terminal=7,
        sockets=Path("/proc/fs"),
    )
    script = qemu.supervisor(machine, [["sh", "-c", "echo cannot serve it >&2; exit 1"]])
    done = subprocess.run(
        [*own_namespaces(), "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot serve it" in done.stderr
