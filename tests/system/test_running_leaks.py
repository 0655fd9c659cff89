"""The leak check sees what is left, each kind, and nothing after a lab is closed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.evidence.bpf_sizes import BpfSizes
from testbed.lab.lab import open_lab
from testbed.running.leaks import leaked_since, take


def test_closed_lab_and_ended_process_leave_nothing():
    before = take()
    with open_lab("veth-pair") as lab:
        lab.nodes["client"].start(["sleep", "10"], role="client")
    assert leaked_since(before) == []


def test_open_lab_is_seen_by_its_namespaces_and_processes():
    before = take()
    with open_lab("veth-pair") as lab:
        started = lab.nodes["client"].start(["sleep", "10"], role="client")
        name = Path(f"/proc/{started.pid}/comm")
        while name.read_text() != "sleep\n":  # until it has become the command
            time.sleep(0.01)
        found = leaked_since(before, patience_s=0)
    assert any(line.startswith("namespaces left behind: net:[") for line in found)
    assert any(line.startswith("processes left behind:") and "(sleep)" in line for line in found)


@pytest.mark.requires("bpf")
def test_loaded_program_is_seen():
    before = take()
    source = BpfSizes()
    found = leaked_since(before, patience_s=0)
    source.close()
    assert [line.split(":")[0] for line in found] == ["programs left behind"]
    assert leaked_since(before) == []


def test_new_mount_and_link_are_seen():
    """In namespaces of their own, so that this machine's stay as they are."""
    script = (
        "import subprocess\n"
        "from testbed.running.leaks import leaked, take\n"
        "before = take()\n"
        "subprocess.run(['mount', '-t', 'tmpfs', 'none', '/mnt'], check=True)\n"
        "subprocess.run(['ip', 'link', 'add', 'veth9', 'type', 'veth', 'peer', 'veth8'], check=True)\n"
        "print(leaked(before, take()))\n"
    )
    mounts = "mount -t sysfs none /sys && exec "
    argv = ["unshare", "-m", "-n", "sh", "-c", mounts + '"$0" -c "$1"', sys.executable, script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "mounts left behind: /mnt" in done.stdout
    assert "links left behind: veth8, veth9" in done.stdout
