"""Processes in a node: what their whole tree used, their certain end, and nothing left of them."""

import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from testbed.lab.lab import open_lab
from testbed.nodes import cgroup

pytestmark = [
    pytest.mark.requires("veth"),
    pytest.mark.skipif(cgroup.own_cgroup() is None, reason="needs cgroup: no version 2 hierarchy is mounted"),
]

# A child of a child in a session of its own, which nobody waits for, burns 0.3 CPU seconds and ends.
BURNS_UNSEEN = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os.write(1, b"burnt")
    os._exit(0)
os.wait()
os.close(1)
time.sleep(60)
"""

# A grandchild in a session of its own that would stay.
STAYS = """
import os, time
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    time.sleep(60)
time.sleep(60)
"""


@pytest.fixture
def node():
    with open_lab("veth-pair") as lab:
        yield lab.nodes["client"]


def python(node, program):
    return node.start([sys.executable, "-c", program], role="client", stdout=subprocess.PIPE)


def runs(pid):
    """Not a zombie that its new parent has not waited for yet, either."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_cpu_of_a_grandchild_that_nobody_waits_for_is_counted(node):
    process = python(node, BURNS_UNSEEN)
    assert process.stdout.read() == b"burnt"
    used = process.used()
    assert used.user_s + used.system_s >= 0.3
    ended = process.kill()
    assert ended.user_s + ended.system_s >= used.user_s + used.system_s
    assert process.used() == (ended.user_s, ended.system_s)


def test_kill_reaches_a_child_in_a_session_of_its_own(node):
    process = python(node, STAYS)
    child = int(process.stdout.readline())
    process.kill()
    assert not runs(child)


def test_cgroups_are_gone_with_their_processes(node):
    process = python(node, STAYS)
    assert len(cgroup.ours()) == 2  # the program's folder, and the process's below it
    process.kill()
    assert not cgroup.ours()


def test_owner_killed_leaves_no_process_and_no_cgroup():
    program = textwrap.dedent(f"""
        import subprocess, sys, time
        from testbed.lab.lab import open_lab
        with open_lab("veth-pair") as lab:
            client = lab.nodes["client"]
            process = client.start([sys.executable, "-c", {STAYS!r}], role="client", stdout=subprocess.PIPE)
            print(process.stdout.readline().decode().strip(), flush=True)
            time.sleep(60)
    """)
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    child = int(owner.stdout.readline())
    folder = cgroup.own_cgroup() / f"testbed-{owner.pid}"
    assert folder.is_dir()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 10
    while (folder.exists() or runs(child)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not folder.exists()
    assert not runs(child)
