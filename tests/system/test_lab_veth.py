"""A veth pair on the running kernel: settings read back, errors of one line, nothing remains."""

import gc
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed.devices.features import PATTERNS
from testbed.errors import InputError, MissingCapability
from testbed.lab.lab import open_lab
from testbed.netlink import message
from testbed.netlink.channel import Channel
from testbed.nodes.namespace import NamespaceNode
from testbed.topology.loading import parse_topology

PAIR = """nodes:
  client:
    devices:
      veth0:
        kind: veth
        peer: server:veth0
        {client}
  server:
    devices:
      veth0: {{addresses: [10.1.0.2/24], {server}}}
"""


def pair(client="", server=""):
    return parse_topology(PAIR.format(client=client, server=server), "pair.yaml")


def tripwire(namespace, observer):
    """A pair between a namespace and an observer's: the observer's end goes when the namespace does."""
    channel = Channel(namespace)
    far = message.LinkEnd("wire", 9, namespace=observer.namespace)
    assert channel.send([message.new_link(message.LinkEnd("wire", 8), "veth", peer=far)]) == []
    channel.close()


def has_wire(observer):
    return "wire" in [message.Link(data).name for data in observer.channel.dump(message.list_links())]


def within(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def descriptors():
    gc.collect()  # what earlier tests left for it to close
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def lab():
    with open_lab("veth-pair") as lab:
        yield lab


def test_both_ends_hold_what_the_file_says():
    sizes = "mtu: 9000, gso_max_size: 200000, gro_max_size: 210000, gso_ipv4_max_size: 128000"
    sizes += ", mac: 02:00:00:00:00:07"
    with open_lab(pair(client="addresses: [fd01::1/64]\n        gso_max_size: 524280", server=sizes)) as lab:
        actual = lab.read_back()
    server = actual["server:veth0"]
    assert (server["mtu"], server["gso_max_size"], server["gro_max_size"]) == (9000, 200000, 210000)
    assert (server["gso_ipv4_max_size"], server["mac"]) == (128000, "02:00:00:00:00:07")
    assert actual["client:veth0"]["gso_max_size"] == 524280
    assert "10.1.0.2/24" in server["addresses"]
    assert "fd01::1/64" in actual["client:veth0"]["addresses"]


def test_ipv4_limit_survives_a_small_general_limit(lab):
    """The kernel resets gso_ipv4_max_size when gso_max_size falls to 65536: order matters."""
    lab.set({"client:veth0": {"gso_ipv4_max_size": 128_000, "gso_max_size": 65_536}})
    actual = lab.read_back()["client:veth0"]
    assert (actual["gso_ipv4_max_size"], actual["gso_max_size"]) == (128_000, 65_536)


def test_short_feature_names_turn_off_all_they_stand_for(lab):
    lab.set({"*:veth0": {"features": {"tso": False, "gro": True}}})
    features = lab.read_back()["server:veth0"]["features"]
    assert features["rx-gro"]
    segmentation = {name: on for name, on in features.items() if name.startswith("tx-tcp")}
    assert segmentation["tx-tcp-segmentation"] is False
    assert set(segmentation.values()) == {False}


@pytest.mark.parametrize("name", sorted({*PATTERNS}))
def test_an_offload_is_what_ethtool_makes_of_it(name, lab):
    """ethtool on one end, the testbed on the other, and what the kernel then holds of every feature."""
    on = name in {"gro", "generic-receive-offload"}
    argv = ["ethtool", "-K", "veth0", name, "on" if on else "off"]
    refused = lab.nodes["client"].start(argv, role="ethtool").wait(10).status != 0
    if refused:  # the device has nothing of it that can change
        with pytest.raises(InputError, match=f"features {name}.* on, the kernel holds off"):
            lab.set({"server:veth0": {"features": {name: True}}})
    else:
        lab.set({"server:veth0": {"features": {name: on}}})
    client, server = (lab.read_back()[f"{node}:veth0"]["features"] for node in ("client", "server"))
    assert client == server


def test_a_feature_by_the_kernels_name_is_excepted_from_its_offload_until_that_is_set_again(lab):
    lab.set({"client:veth0": {"features": {"tso": False, "tx-tcp6-segmentation": True}}})
    features = lab.read_back()["client:veth0"]["features"]
    assert [name for name, on in features.items() if on and "tcp" in name] == ["tx-tcp6-segmentation"]
    assert not lab.drift()
    lab.set({"client:veth0": {"features": {"tso": False}}})
    features = lab.read_back()["client:veth0"]["features"]
    assert [name for name, on in features.items() if on and "tcp" in name] == []


def test_addresses_change_live(lab):
    lab.set({"client:veth0": {"addresses": ["10.2.0.1/24"]}})
    actual = lab.read_back()["client:veth0"]["addresses"]
    assert "10.2.0.1/24" in actual
    assert "10.1.0.1/24" not in actual


@pytest.mark.parametrize(
    ("client", "server", "error", "says"),
    [
        ("gso_max_size: 600000", "", InputError, "pair.yaml:7: client:veth0: gso_max_size 600000 is above "
         "the device's tso_max_size 524280 (kernel: too big gso_max_size)"),
        ("", "gro_max_size: 600000", InputError, "pair.yaml:10: server:veth0: gro_max_size 600000 is above"),
        ("features: {tsoo: on}", "", InputError, "client:veth0: no feature 'tsoo', did you mean 'tso'?"),
        ("features: {lro: on}", "", InputError, "requested features lro (rx-lro) on, the kernel holds off"),
    ],
)  # fmt: skip
def test_what_the_kernel_refuses_is_said_where_it_was_requested(client, server, error, says):
    with pytest.raises(error) as caught:
        open_lab(pair(client, server))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_mtu_above_the_kernels_limit_is_a_missing_capability(lab):
    limit = lab.read_back()["client:veth0"]["max_mtu"]
    with pytest.raises(MissingCapability, match=f"pair.yaml:7: client:veth0: mtu {limit + 1} .* {limit} "):
        open_lab(pair(client=f"mtu: {limit + 1}"))


def test_a_process_runs_inside_pinned_and_ends_with_its_group(lab):
    node = lab.nodes["client"]
    script = "grep Cpus_allowed_list /proc/self/status; readlink /proc/self/ns/net; sleep 100 & wait"
    process = node.start(["bash", "-c", script], role="x", cpus=[0], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().split()[1] == b"0"
    assert process.stdout.readline().strip() == f"net:[{node.netns}]".encode()
    assert process.poll() is None
    assert process.kill().status == -signal.SIGKILL
    assert process.stdout.read() == b""  # the sleep held the other end of this pipe


def test_a_call_runs_inside_and_comes_back(lab):
    here = Path("/proc/thread-self/ns/net")
    home = here.readlink()
    assert lab.nodes["server"].call(here.readlink) != home
    assert here.readlink() == home


def test_nothing_survives_sigkill():
    script = (
        "from testbed.lab.lab import open_lab\n"
        "lab = open_lab('veth-pair')\n"
        "p = lab.nodes['client'].start(['sleep', '1000'], role='x')\n"
        "print(p.pid, flush=True)\n"
        "input()\n"
    )
    observer = NamespaceNode.make("observer")
    program = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child = Path(f"/proc/{int(program.stdout.readline())}")
    namespace = os.open(child / "ns/net", os.O_RDONLY)
    tripwire(namespace, observer)
    os.close(namespace)
    assert has_wire(observer)
    program.kill()
    program.wait()
    assert within(30, lambda: not child.exists())
    assert within(30, lambda: not has_wire(observer))
    observer.close()


def test_a_failed_lab_leaves_no_descriptor_behind():
    before = descriptors()
    for _ in range(3):
        with pytest.raises(InputError):
            open_lab(pair(client="gso_max_size: 600000"))
    assert descriptors() == before


RING = "nodes:\n" + "".join(
    f"  n{i}:\n    devices:\n"
    f"      right: {{kind: veth, peer: 'n{(i + 1) % 5}:left', addresses: [10.0.{i}.1/24]}}\n"
    f"      left: {{addresses: [10.0.{(i - 1) % 5}.2/24]}}\n"
    for i in range(5)
)


def test_nodes_may_be_joined_in_a_ring():
    with open_lab(parse_topology(RING)) as ring:
        actual = ring.read_back()
    assert len(actual) == 10
    assert "10.0.4.2/24" in actual["n0:left"]["addresses"]


def test_the_ends_of_a_pair_have_different_indexes_so_that_carrier_is_noticed_at_once(lab):
    """Linux holds changes of carrier back for up to a second where they are the same."""
    one, other = lab.devices()
    assert one.ifindex != other.ifindex


def test_evidence_may_read_from_another_thread_while_settings_change(lab):
    with ThreadPoolExecutor() as threads:
        reading = [threads.submit(lab.counters) for _ in range(50)]
        for mtu in range(1400, 1420):
            lab.set({"*:veth0": {"mtu": mtu}})
        assert all("client:veth0" in read.result() for read in reading)
    assert lab.read_back()["server:veth0"]["mtu"] == 1419
