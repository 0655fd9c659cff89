"""A NIC of the machine in a node, with a namespace for the machine and one end of a veth pair for the NIC."""

import subprocess

import pytest

from testbed.errors import InputError, TestbedError
from testbed.lab.lab import open_lab
from testbed.netlink.namespaces import entered, new_namespace
from testbed.topology.loading import parse_topology

NODE = "nodes:\n  client:\n    devices:\n      nic0: {{kind: physical, {}}}\n"
SETUP = [
    "link add nic0 type veth peer name far0",
    "link set nic0 mtu 1700 txqueuelen 77 up",
    "link set far0 up",
    "address add 10.9.0.1/24 dev nic0",
    "address add fd09::1/64 dev nic0 nodad",
]


def ip(words):
    return subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True).stdout


def topology(settings=""):
    return parse_topology(NODE.format(settings), "t.yaml")


@pytest.fixture
def machine():
    """The calling thread is on the machine within the test."""
    with entered(new_namespace()):
        for words in SETUP:
            ip(words)
        yield


def as_it_was():
    link = ip("-details link show nic0")
    addresses = ip("address show dev nic0")
    return [
        word
        for word in ("mtu 1700", "qlen 77", ",UP", "10.9.0.1/24", "fd09::1/64")
        if word not in link + addresses
    ] == []


@pytest.mark.requires("ethtool")
def test_it_is_moved_in_with_its_settings_and_given_back_as_it_was(machine):
    with open_lab(
        topology("mtu: 1400, gso_max_size: 131072, features: {tso: off}, addresses: [10.8.0.1/24]")
    ) as lab:
        actual = lab.read_back()["client:nic0"]
        assert (actual["mtu"], actual["gso_max_size"]) == (1400, 131072)
        assert not actual["features"]["tx-tcp-segmentation"]
        assert "nic0" not in ip("link show")
    assert as_it_was()
    assert "gso_max_size 65536" in ip("-details link show nic0")
    features = subprocess.run(["ethtool", "-k", "nic0"], capture_output=True, text=True, check=True).stdout
    assert "tcp-segmentation-offload: on" in features


def test_it_is_given_back_where_the_lab_fails(machine):
    with pytest.raises(TestbedError, match="600000"):
        open_lab(topology("mtu: 1400, gso_max_size: 600000"))
    assert as_it_was()


@pytest.mark.parametrize(
    "route", ["default via 10.9.0.254", "-6 default via fd09::fe", "-6 default dev nic0"]
)
def test_one_with_the_machines_default_route_is_refused(machine, route):
    family, words = ("-6 ", route[3:]) if route.startswith("-6") else ("", route)
    ip(f"{family}route add {words}")
    with pytest.raises(
        InputError, match=r"^t\.yaml:4: client:nic0: this machine's default route goes over it"
    ):
        open_lab(topology())
    assert as_it_was()


def test_one_of_several_next_hops_is_refused_too(machine):
    ip("route add default nexthop dev far0 nexthop via 10.9.0.254 dev nic0")
    with pytest.raises(InputError, match="default route"):
        open_lab(topology())


def test_one_that_is_not_there_is_named_with_the_nearest(machine):
    text = NODE.format("mtu: 1400").replace("nic0", "nic1")
    with pytest.raises(
        InputError, match=r"t\.yaml:4: client:nic1: this machine has no device 'nic1', did you mean 'nic0'"
    ):
        open_lab(parse_topology(text, "t.yaml"))
