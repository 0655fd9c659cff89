"""Sysctls that a file states: below /proc/sys/net whatever their names are, and planned in time."""

import os

import pytest

from testbed.devices.operations import CreateLink, SetSysctl
from testbed.errors import InputError
from testbed.nodes.sysctl_files import _opened, parts
from testbed.topology.loading import parse_topology
from testbed.topology.plan import plan
from testbed.topology.sysctls import device_of

VLAN = """nodes:
  a:
    devices:
      eth0: {kind: veth, peer: b:eth0}
      eth0.100: {kind: vlan, dev: eth0, id: 100}
    sysctls:
      %s: 1
  b: {}
"""


@pytest.mark.parametrize(
    "name",
    ["net/ipv4/conf/eth0.100/forwarding", "net.ipv4.conf.eth0/100.forwarding"],
)
def test_both_spellings_of_sysctl_8_name_a_device_with_a_dot(name):
    assert parts(name) == ("net", "ipv4", "conf", "eth0.100", "forwarding")
    assert device_of(name) == "eth0.100"


@pytest.mark.parametrize(
    "name",
    [
        "net./etc/cron.d/x",
        "net/../../etc/cron.d/x",
        "net.ipv4.conf.../x",
        "net.ipv4.conf./etc/cron.d/x",
        "net/ipv4/conf/..",
        "net..ipv4",
        "net/",
        "net",
        "",
        "/etc/passwd",
        "kernel.core_pattern",
        "kernel/core_pattern",
        "network.x",
        "net.ipv4.ip_forward\nx",
        "net.ipv4.ip_forwa\u0000rd",
        "net.ipv4." + "x" * 65,
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_with_its_line(name):
    with pytest.raises(ValueError, match="is not a sysctl of a network namespace"):
        parts(name)
    with pytest.raises(InputError) as caught:
        parse_topology(_stating(name), "t.yaml")
    assert str(caught.value).startswith("t.yaml:4: ")


def _stating(name: str) -> str:
    escaped = name.replace("\n", "\\n").replace("\0", "\\0")
    return f'nodes:\n  a:\n    sysctls:\n      "{escaped}": 1\n'


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("net.ipv4.conf.eth0.100.forwarding", "holds a dot, write net/ipv4/conf/eth0.100/forwarding"),
        ("net.ipv4.conf.eth1.forwarding", "no device 'eth1', did you mean 'eth0'?"),
        ("net/ipv6/neigh/gone/app_solicit", "no device 'gone'"),
    ],
)
def test_a_sysctl_of_a_device_is_one_of_its_node(name, says):
    with pytest.raises(InputError) as caught:
        parse_topology(VLAN % name, "t.yaml")
    assert str(caught.value).startswith("t.yaml:7: a: sysctl ")
    assert says in str(caught.value)


def test_two_spellings_of_one_sysctl_are_a_mistake():
    text = "nodes:\n  a:\n    sysctls:\n      net.ipv4.ip_forward: 1\n      net/ipv4/ip_forward: 0\n"
    with pytest.raises(InputError, match=r"t.yaml:5: .*net.ipv4.ip_forward states this sysctl already"):
        parse_topology(text, "t.yaml")


def test_a_later_spelling_wins_over_an_earlier_one():
    topology = parse_topology("nodes: {a: {sysctls: {net.ipv4.ip_forward: 1}}}")
    changed = topology.with_sysctls({"a": {"net/ipv4/ip_forward": 0}})
    assert changed.nodes["a"].sysctls == {"net/ipv4/ip_forward": 0}


def test_a_sysctl_of_a_device_that_only_a_peer_names_comes_after_it():
    operations = plan(
        parse_topology(
            "nodes:\n  a: {devices: {v: {kind: veth, peer: b:w}}}\n"
            "  b: {sysctls: {net.ipv4.conf.w.forwarding: 1, net.ipv4.conf.all.forwarding: 1}}\n"
        )
    )
    made = next(i for i, one in enumerate(operations) if isinstance(one, CreateLink))
    places = {one.name: i for i, one in enumerate(operations) if isinstance(one, SetSysctl)}
    assert places["net.ipv4.conf.all.forwarding"] < made < places["net.ipv4.conf.w.forwarding"]


@pytest.mark.parametrize("names", [("net", "link", "file"), ("net", "file_link")])
def test_no_part_of_the_way_may_be_a_link(tmp_path, names):
    (tmp_path / "net/folder").mkdir(parents=True)
    (tmp_path / "net/folder/file").write_text("0")
    (tmp_path / "net/link").symlink_to("folder")
    (tmp_path / "net/file_link").symlink_to("folder/file")
    with _opened(tmp_path, ("net", "folder", "file"), os.O_RDONLY) as file:
        assert os.read(file, 9) == b"0"
    with pytest.raises(OSError), _opened(tmp_path, names, os.O_WRONLY):
        pass
