"""The pump: both ways cross it, its CPU is its own, and it goes when its lab or its parent does."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from reach import reaches

from testbed.devices.settings import Settings
from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.evidence.cpu import CpuUse
from testbed.lab.lab import open_lab
from testbed.netlink.message import delete_link, set_link
from testbed.nodes import pump
from testbed.topology.loading import load_topology, parse_topology

ALONE = """nodes:
  switch: {devices: {tap0: {kind: tap, to: "guest:eth0", addresses: [10.1.0.1/24, fd01::1/64]}}}
  guest: {pump: {cpus: [0]}, devices: {eth0: {addresses: [10.1.0.2/24, fd01::2/64]}}}
"""


def pumps():
    """The pids of every pump on this machine."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"nodes/pump.py") for word in words):
            found.add(int(path.parent.name))
    return found


@pytest.fixture
def lab():
    with open_lab(parse_topology(ALONE)) as lab:
        yield lab


def the_pump(lab):
    (process,) = lab.nodes["guest"].processes
    return process


def test_both_directions_and_versions_cross(lab):
    for source, target in (("switch", "guest"), ("guest", "switch")):
        assert reaches(lab, source, target, 4) == b"packet"
        assert reaches(lab, source, target, 6) == b"packet"


def test_it_runs_in_the_far_node_on_its_cpus_and_under_its_own_name(lab):
    process = the_pump(lab)
    assert process.role == "pump switch:tap0"
    assert Path(f"/proc/{process.pid}/ns/net").stat().st_ino == lab.nodes["guest"].netns
    assert os.sched_getaffinity(process.pid) == {0}


def test_offloads_are_open_on_both_taps(lab):
    for place in ("switch:tap0", "guest:eth0"):
        features = lab.read_back()[place]["features"]
        assert features["tx-tcp-segmentation"] and features["tx-tcp6-segmentation"], place
        assert features["tx-checksum-ip-generic"], place


def test_idle_pump_does_not_use_the_cpu(lab):
    def ticks():
        fields = Path(f"/proc/{the_pump(lab).pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    reaches(lab, "switch", "guest", 6)
    before = ticks()
    time.sleep(0.3)
    assert ticks() - before <= 3


def test_a_device_that_was_down_carries_again(lab):
    """Frames sent meanwhile are lost, as on a wire; the pump goes on."""
    for up in (False, True):
        lab.nodes["guest"].channel.send([set_link("eth0", {}, up=up)])
        if not up:
            lab.nodes["switch"].call(_send_into, "10.1.0.2")
    assert reaches(lab, "switch", "guest", 4) == b"packet"


def test_it_ends_with_its_device(lab):
    process = the_pump(lab)
    lab.nodes["switch"].channel.send([delete_link("tap0")])
    assert process.wait(20).status == 0


def test_its_cpu_time_is_its_own(lab):
    process = the_pump(lab)
    reaches(lab, "switch", "guest", 6)
    ended = process.kill()
    assert ended.status == -signal.SIGKILL
    assert ended.user_s + ended.system_s > 0


def test_a_rounds_record_has_its_cpu_time_on_a_line_of_its_own(lab):
    collector = CpuUse()
    collector.start(lab)
    collector.measuring()
    lab.nodes["switch"].call(_flood, "10.1.0.2", the_pump(lab).pid)
    processes = collector.stop()["cpu"].processes
    assert set(processes) == {"testbed", "pump switch:tap0"}
    pump = processes["pump switch:tap0"]
    assert pump.user_s + pump.system_s > 0


def test_it_ends_with_its_lab():
    with open_lab(parse_topology(ALONE)) as lab:
        pid = the_pump(lab).pid
        assert pid in pumps()
    assert pid not in pumps()


def test_it_dies_with_a_killed_parent():
    code = (
        "import sys, time; from testbed.lab.lab import open_lab\n"
        "lab = open_lab('bridge-tap'); print(lab.nodes['guest'].processes[0].pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert pid in pumps()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while pid in pumps() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pid not in pumps()


def test_a_tap_without_a_far_end_stays_for_whoever_opens_it():
    with open_lab(parse_topology("nodes: {host: {devices: {tap0: {kind: tap, mtu: 1400}}}}")) as lab:
        assert lab.read_back()["host:tap0"]["mtu"] == 1400
        assert lab.nodes["host"].processes == []


def test_a_far_end_must_be_a_node_with_a_pump():
    text = ALONE.replace("pump: {cpus: [0]}, ", "")
    with pytest.raises(
        InputError, match=r"guest: switch:tap0 leads here by a tap: the node needs `pump: \{\}`"
    ):
        parse_topology(text)


def test_no_pump_is_left_where_a_lab_fails():
    broken = load_topology("bridge-tap")
    with pytest.raises(MissingCapability):
        open_lab(broken.with_settings({"guest:eth0": Settings(gso_max_size=131072)}))
    assert not pumps() & {child.pid for child in psutil.Process().children()}


def test_a_pump_that_does_not_start_is_an_error_with_its_place_and_words(monkeypatch):
    monkeypatch.setattr(pump, "command", lambda: ["sh", "-c", "echo no such thing >&2; exit 3"])
    with pytest.raises(TestbedError, match=r"^switch:tap0: its pump did not start: no such thing$"):
        open_lab(parse_topology(ALONE))


def _send_into(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"lost", (address, 9))


def _flood(address, pid):
    """Frames until the process `pid` has worked for 50 ms, which a clock of 10 ms shows."""
    used = psutil.Process(pid).cpu_times
    before, ends = sum(used()), time.monotonic() + 20
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while sum(used()) < before + 0.05 and time.monotonic() < ends:
            for _ in range(100):
                sender.sendto(bytes(1400), (address, 9))
