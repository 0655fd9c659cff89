"""The whole of a round's evidence on a real flow."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import astuple

from testbed.evidence.collect import CollectSpec
from testbed.evidence.collectors import collectors_for
from testbed.evidence.kernel_log import KernelLog
from testbed.evidence.noise import noise, read, wait_for_quiet
from testbed.evidence.processes import descendants, family, tasks
from testbed.lab.lab import open_lab
from testbed.netlink.inet_diag import TcpSockets

SERVE = """
import socket
with socket.create_server(("fd01::2", 5301), family=socket.AF_INET6) as listener:
    print("ready", flush=True)
    connection, _ = listener.accept()
    while connection.recv(1 << 20):
        pass
"""
SEND = """
import socket, time
with socket.create_connection(("fd01::2", 5301)) as connection:
    end, sent = time.monotonic() + 0.8, 0
    while time.monotonic() < end or sent < 300_000_000:  # enough for a clock of 10 ms
        connection.sendall(bytes(100_000))
        sent += 100_000
"""


def compute(seconds):
    """Use so many seconds of a CPU, in this process."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.fixture(scope="module")
def evidence():
    """What the default set finds in a flow of 0.8 s or more between two processes on CPU 0."""
    collectors = collectors_for(CollectSpec())
    with open_lab("veth-pair") as lab:
        for collector in collectors:
            collector.start(lab)
        server = start(lab, "server", SERVE)
        server.stdout.readline()
        client = start(lab, "client", SEND)
        for collector in collectors:
            collector.measuring()
        compute(0.2)
        client.wait(60)
        server.wait(60)
        found = {}
        for collector in reversed(collectors):
            found |= collector.stop()
    for collector in collectors:
        collector.close()
    return found


def start(lab, node, program):
    argv = [sys.executable, "-c", program]
    return lab.nodes[node].start(argv, role=node, cpus=[0], stdout=subprocess.PIPE)


@pytest.mark.requires("bpf")
def test_tcp_state_is_the_senders(evidence):
    tcp = evidence["tcp"]
    assert tcp.node == "client"
    assert (tcp.tuple.destination, tcp.tuple.destination_port) == ("fd01::2", 5301)
    assert tcp.snd_mss == 1428
    assert tcp.bytes_sent > 100_000
    assert tcp.congestion
    assert len(tcp.samples) >= 2
    assert tcp.samples[0].at_s < tcp.samples[-1].at_s


def test_socket_is_looked_at_again_until_it_is_connected_no_more():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as sender,
    ):
        receiver, _ = listener.accept()
        sockets = TcpSockets()
        try:
            ends = sender.getsockname()[1], listener.getsockname()[1]
            (known,) = [
                found for found in sockets.dump() if (found.source_port, found.destination_port) == ends
            ]
            sender.sendall(bytes(1000))
            while len(receiver.recv(1000, socket.MSG_PEEK)) < 1000:
                pass
            now = sockets.again(known)
            assert now.identity == known.identity
            assert now.info["bytes_sent"] == known.info["bytes_sent"] + 1000
            # Closed with unread data: both ends are reset, and none is left in TIME_WAIT.
            receiver.close()
            sender.close()
            assert sockets.again(known) is None
        finally:
            receiver.close()
            sockets.close()


def test_descendants_are_those_that_all_of_proc_shows():
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as shell:
        try:
            while len(descendants(shell.pid)) < 2:
                assert shell.poll() is None
            found = descendants(shell.pid)
            assert set(found) == family(shell.pid, tasks())
            assert {task.parent for task in found.values()} == {os.getpid(), shell.pid}
        finally:
            for pid in family(shell.pid, tasks()):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.requires("bpf")
def test_cores_of_the_workload_are_labelled(evidence):
    cpu = evidence["cpu"]
    assert cpu.app_cores == [0]
    assert cpu.app == cpu.per_core[0]
    assert cpu.net_cores
    assert cpu.irq_time in ("accounted", "sampled", None)
    ours = cpu.processes["testbed"]
    assert ours.user_s + ours.system_s > 0.15, "what it computed beside the flow, but for ticks of 10 ms"
    assert all(sum(astuple(core)) == pytest.approx(100, abs=1) for core in cpu.per_core)


@pytest.mark.requires("bpf")
def test_stack_and_noise_are_there(evidence):
    assert set(evidence["netstat"]) == {"client", "server"}
    assert evidence["softnet"].processed > 100
    assert 0 <= evidence["noise"].steal <= 100
    assert evidence["kernel_faults"] == []
    assert evidence["taint"] is not None


def test_line_of_the_kernel_log_belongs_to_its_round():
    log = KernelLog()
    try:
        log.start(None)
        Path("/dev/kmsg").write_text("<4>testbed's test: veth0 says hello\n")
        first = log.stop()
        log.start(None)
        second = log.stop()
    finally:
        log.close()
    assert any("veth0 says hello" in line for line in first["kernel_log"])
    assert not any("veth0 says hello" in line for line in second["kernel_log"])
    assert "invalid" not in first


def test_busy_process_of_somebody_else_is_foreign():
    """A grandchild whose parent is gone is no descendant of ours any more."""
    spin = "import os, time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass"
    detach = f"import os, sys\nif os.fork() == 0:\n    os.setsid()\n    exec({spin!r})"
    before = read()
    subprocess.run([sys.executable, "-c", detach], check=True)
    time.sleep(0.5)
    found = noise(before, read())
    assert found.foreign > 5


SPIN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
ORPHAN = f"""
import subprocess, sys
spin = subprocess.Popen([sys.executable, "-c", {SPIN!r}], stdout=subprocess.DEVNULL, start_new_session=True)
print(spin.pid)
"""


def test_wait_for_quiet_says_what_is_loud_and_ends():
    heard = []
    done = subprocess.run([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, check=True)
    try:
        found = wait_for_quiet({"foreign": 1.0}, 1.5, heard.append)
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)
    assert found.foreign > 1
    assert heard[0].startswith("waiting for a quiet machine: foreign")
    assert "busiest: " in heard[0]
