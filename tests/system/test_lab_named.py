"""Labs that stay up: named, marked, locked; half-built ones are seen; nothing of others is touched."""

import fcntl
import gc
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.errors import InputError, TestbedError
from testbed.lab import journal, named
from testbed.topology.loading import parse_topology

PAIR = """nodes:
  client:
    devices: {veth0: {kind: veth, peer: server:veth0, mtu: 1500}}
  server:
    devices: {veth0: {addresses: [10.1.0.2/24]}}
"""
TESTBED = [sys.executable, "-m", "testbed"]


@pytest.fixture
def name():
    """A lab's name that no other test run uses; whatever the test leaves is removed."""
    name = f"t{os.getpid()}"
    yield name
    if any(lab.name == name for lab in named.labs()):
        named.take_down(name)


def up(name, text=PAIR, **options):
    return named.bring_up(parse_topology(text, "pair.yaml"), name, "/nowhere/pair.yaml", **options)


def found(name):
    return next((lab for lab in named.labs() if lab.name == name), None)


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def command(*words, check=True):
    return subprocess.run([*TESTBED, *words], check=check, capture_output=True, text=True)


def test_ip_netns_finds_the_nodes_and_every_device_carries_the_mark(name):
    assert up(name) == "built"
    for node in ("client", "server"):
        for device in ("lo", "veth0"):
            shown = json.loads(ip("-n", f"tb-{name}-{node}", "-j", "-d", "link", "show", device))
            assert shown[0]["ifalias"] == f"testbed:{name}:{node}"


def test_the_same_file_again_is_nothing_to_do_even_after_a_live_change(name):
    up(name)
    assert up(name) == "unchanged"
    with named.attached(name, change=True) as lab:
        lab.set({"client:veth0": {"gso_max_size": 70000}})
    assert up(name) == "unchanged"
    with named.attached(name) as lab:
        assert lab.read_back()["client:veth0"]["gso_max_size"] == 70000
        assert not lab.drift()


def test_a_changed_file_is_applied_live(name):
    up(name)
    changed = PAIR.replace("mtu: 1500", "mtu: 9000, features: {tso: off}").replace("10.1.0.2", "10.7.0.2")
    assert up(name, changed) == "changed"
    with named.attached(name) as lab:
        actual = lab.read_back()
    assert actual["client:veth0"]["mtu"] == 9000
    assert actual["client:veth0"]["features"]["tx-tcp-segmentation"] is False
    assert "10.7.0.2/24" in actual["server:veth0"]["addresses"]
    assert "10.1.0.2/24" not in actual["server:veth0"]["addresses"]


def test_another_structure_is_rebuilt_only_when_requested(name):
    up(name)
    other = PAIR.replace("veth0", "veth1")
    with pytest.raises(TestbedError, match="would have to be rebuilt: client:veth0 is gone from the file"):
        up(name, other)
    assert up(name, other, rebuild=True) == "rebuilt"
    assert "veth1" in ip("-n", f"tb-{name}-client", "link")


def test_drift_is_seen_and_taken_back_by_up(name):
    up(name)
    ip("-n", f"tb-{name}-client", "link", "set", "veth0", "mtu", "1400")
    shown = json.loads(command("show", name, "--json").stdout)["settings"]
    drifted = [(row["device"], row["setting"], row["actual"]) for row in shown if row["drift"]]
    assert drifted == [("client:veth0", "mtu", 1400)]
    assert up(name) == "changed"
    with named.attached(name) as lab:
        assert lab.read_back()["client:veth0"]["mtu"] == 1500


def test_down_leaves_what_has_the_name_but_not_the_mark(name):
    up(name)
    foreign = f"tb-{name}-foreign"
    ip("netns", "add", foreign)
    try:
        named.take_down(name)
        assert Path("/run/netns", foreign).exists()
        assert not Path(f"/run/netns/tb-{name}-client").exists()
        assert found(name) is None
    finally:
        ip("netns", "del", foreign)


def test_a_lab_whose_file_and_journal_are_gone_is_found_by_its_marks(name):
    up(name)
    journal.forget_journal(name)
    lab = found(name)
    assert (lab.status, set(lab.nodes)) == ("leftover", {"client", "server"})
    named.take_down(name)
    assert found(name) is None


@pytest.mark.parametrize("sends", [0, 1, 40, 100])
def test_an_up_killed_half_way_leaves_what_down_removes(name, sends):
    """Killed before so many batches of netlink messages were sent; there are more than a hundred."""
    many = "nodes:\n" + "".join(
        f"  n{i}: {{devices: {{v: {{kind: veth, peer: 'm{i}:v'}}}}}}\n  m{i}: {{}}\n" for i in range(40)
    )
    script = (
        "import os, signal; from itertools import count\n"
        "from testbed.netlink.channel import Channel; from testbed.lab import named\n"
        "from testbed.topology.loading import parse_topology\n"
        "sent, send = count(), Channel.send\n"
        "def send_or_die(self, *messages):\n"
        f"    if next(sent) == {sends}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return send(self, *messages)\n"
        "Channel.send = send_or_die\n"
        f"named.bring_up(parse_topology({many!r}), {name!r}, '')\n"
    )
    program = subprocess.run([sys.executable, "-c", script], check=False)
    assert program.returncode == -signal.SIGKILL
    assert found(name).status == "half-built"
    named.take_down(name)
    assert found(name) is None
    assert not list(Path("/run/netns").glob(f"tb-{name}-*"))
    assert not list(Path("/run/testbed").glob(f"{name}.*"))


def test_two_users_of_one_name_meet_a_lock(name):
    with (
        journal.locked(name),
        pytest.raises(TestbedError, match=rf"lab '{name}' is being changed by process {os.getpid()}"),
    ):
        up(name)
    assert found(name) is None
    assert up(name) == "built"


def test_a_lock_file_that_nobody_holds_is_no_lock(name):
    path = Path(f"/run/testbed/{name}.lock")
    path.parent.mkdir(exist_ok=True)
    path.write_text("1\n")
    assert up(name) == "built"
    assert not path.exists()
    with path.open("w") as actual:
        fcntl.flock(actual, fcntl.LOCK_EX)
        path.unlink()  # as its last holder does between somebody's open and flock
        named.take_down(name)


def test_an_up_that_fails_leaves_nothing(name):
    with pytest.raises(InputError):
        up(name, PAIR.replace("mtu: 1500", "gso_max_size: 600000"))
    assert found(name) is None
    assert not list(Path("/run/netns").glob(f"tb-{name}-*"))


def test_exec_gives_the_commands_own_status_and_devices(name):
    up(name)
    assert command("exec", name, "client", "--", "ls", "/sys/class/net").stdout.split() == ["lo", "veth0"]
    assert command("exec", name, "client", "--", "sh", "-c", "exit 7", check=False).returncode == 7


def test_what_does_not_exist_is_one_line(name):
    for words in (["down", "nosuch"], ["exec", "nosuch", "client", "true"], ["up", "nosuch"]):
        ended = command(*words, check=False)
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1


PUMPED = """nodes:
  switch:
    devices: {tap0: {kind: tap, to: guest:eth0}}
  guest:
    pump: {}
    devices: {eth0: {}}
"""


def carriers_of(mark):
    """The processes that carry a lab's mark."""
    wanted = f"TESTBED_LAB={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def test_a_labs_own_processes_outlive_up_and_end_with_down(name, tmp_path):
    file = tmp_path / "pumped.yaml"
    file.write_text(PUMPED)
    command("up", str(file), "--name", name)
    assert len(carriers_of(name)) == 1
    assert "LOWER_UP" in ip("-n", f"tb-{name}-switch", "link", "show", "tap0")
    command("down", name)
    assert carriers_of(name) == []


def test_up_starts_a_pump_again_that_was_killed(name):
    up(name, PUMPED)
    assert up(name, PUMPED) == "unchanged"
    (pump,) = carriers_of(name)
    ended = os.pidfd_open(pump)
    os.kill(pump, signal.SIGKILL)
    select.select([ended], [], [])
    os.close(ended)
    assert "LOWER_UP" not in ip("-n", f"tb-{name}-switch", "link", "show", "tap0")
    assert up(name, PUMPED) == "changed"
    assert "LOWER_UP" in ip("-n", f"tb-{name}-switch", "link", "show", "tap0")
    assert len(carriers_of(name)) == 1


def test_building_and_removing_leaves_no_descriptor_and_no_zombie(name):
    """Where one program does both many times, as a test suite does."""

    def cycle():
        up(name, PUMPED)
        with named.attached(name, change=True) as lab:
            lab.set({"switch:tap0": {"mtu": 1400}})
        named.take_down(name)
        with pytest.raises(InputError):
            up(name, PUMPED.replace("tap0: {", "tap0: {features: {lro: on}, "))

    cycle()
    before = held_by_this_process()
    for _ in range(5):
        cycle()
    assert held_by_this_process() == before


def held_by_this_process():
    """Its open descriptors and its children, zombies included."""
    gc.collect()  # what earlier tests left for it to close
    lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    children = sorted(pid for file in lists for pid in file.read_text().split())
    return len(list(Path("/proc/self/fd").iterdir())), children


def test_what_is_no_labs_name_is_one_line():
    for words in (["down", "a/b"], ["show", "a/b"], ["set", "a b", "x:y.mtu=1500"]):
        done = command(*words, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(f"testbed: '{words[1]}' is not a lab's name: letters, digits")
        assert done.stderr.count("\n") == 1


def test_a_name_that_something_else_has_is_told_with_the_remedy(name):
    path = Path("/run/netns", f"tb-{name}-client")
    up(name)
    named.take_down(name)  # so that /run/netns is there
    path.touch()
    remedy = f"`ip netns delete tb-{name}-client`, or choose another lab name with --name"
    assert up(name) == "built"  # a file that a killed program left is nobody's
    named.take_down(name)
    ip("netns", "add", path.name)
    with pytest.raises(TestbedError, match=f"without this lab's mark.*{remedy}"):
        up(name)
    ip("netns", "delete", path.name)
    assert up(name) == "built"
