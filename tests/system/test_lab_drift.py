"""What somebody changes in a named lab by hand: `show` shows it, `up` mends it or says why not."""

import json
import os
import re
import subprocess
import sys

import pytest

from testbed.cli import main
from testbed.lab import named
from testbed.topology.loading import parse_topology

LAB = """nodes:
  client:
    devices:
      veth0: {kind: veth, peer: "switch:port0", mtu: 1500, addresses: [10.1.0.1/24, "fd01::1/64"]}
      veth1: {kind: veth, peer: "other:veth1", features: {tso: off},
              qdisc: {kind: tbf, rate: 1gbit, burst: 32kb, limit: 1mb}}
    routes: [{to: 10.9.0.0/16, via: 10.1.0.2}, {to: "fd09::/32", via: "fd01::2", mtu: 1400}]
    neighbours: [{to: 10.1.0.9, dev: veth0, lladdr: 02:00:00:00:00:09}]
    sysctls: {net.ipv6.conf.veth0.hop_limit: 33}
  switch: {devices: {br0: {kind: bridge, ports: [port0]}}}
  other: {devices: {veth1: {}}}
"""


@pytest.fixture
def name(tmp_path):
    name = f"t{os.getpid()}"
    (tmp_path / "lab.yaml").write_text(LAB)
    named.bring_up(parse_topology(LAB, "lab.yaml"), name, str(tmp_path / "lab.yaml"))
    yield name
    named.take_down(name)


@pytest.fixture
def testbed(name, tmp_path, capsys, monkeypatch):
    """`testbed WORDS` in this process: status, stdout, stderr."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["testbed", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def by_hand(name):
    """A command in a node of the lab."""

    def run(node, *words):
        argv = ["ip", "netns", "exec", f"tb-{name}-{node}", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture
def drifted(name, testbed):
    """(device, setting) of what `show` marks."""

    def run():
        status, output, _ = testbed("show", name, "--json")
        assert status == 0
        return {(row["device"], row["setting"]) for row in json.loads(output)["settings"] if row["drift"]}

    return run


@pytest.fixture
def up(name, tmp_path, testbed):
    return lambda *options: testbed("up", str(tmp_path / "lab.yaml"), "--name", name, *options)


def test_a_lab_that_nobody_touched_has_no_drift(drifted, up, name):
    assert drifted() == set()
    status, output, _ = up()
    assert (status, output) == (0, f"lab {name} is up already, nothing to do\n")


@pytest.mark.parametrize(
    ("node", "words", "marked"),
    [
        ("client", "ip link set veth0 down", {("client:veth0", "up"), ("switch:port0", "carrier")}),
        ("other", "ip link set veth1 down", {("other:veth1", "up"), ("client:veth1", "carrier")}),
        ("client", "ip link set lo down", {("client", "lo")}),
        ("client", "ip link set veth0 mtu 1400", {("client:veth0", "mtu")}),
        ("client", "ip link set veth0 mtu 1000", {("client:veth0", "mtu"), ("client:veth0", "addresses")}),
        ("other", "ip link set veth1 mtu 1400", {("other:veth1", "mtu")}),
        ("other", "ip link set veth1 txqueuelen 7", {("other:veth1", "txqueuelen")}),
        (
            "other",
            "ip link set veth1 gso_max_size 30000",
            {("other:veth1", "gso_max_size"), ("other:veth1", "gso_ipv4_max_size")},
        ),
        ("other", "ip link set veth1 address 02:00:00:00:00:77", {("other:veth1", "mac")}),
        (
            "other",
            "tc qdisc add dev veth1 root tbf rate 1gbit burst 32kb limit 1mb",
            {("other:veth1", "qdisc")},
        ),
        ("client", "tc qdisc del dev veth1 root", {("client:veth1", "qdisc")}),
        (
            "client",
            "tc qdisc replace dev veth1 root tbf rate 2gbit burst 32kb limit 1mb",
            {("client:veth1", "qdisc")},
        ),
        ("client", "ethtool -K veth1 tso on", {("client:veth1", "tso")}),
        ("other", "ethtool -K veth1 gro on", {("other:veth1", "rx-gro")}),
        ("client", "ip address del 10.1.0.1/24 dev veth0", {("client:veth0", "addresses")}),
        ("client", "ip address add 10.8.0.1/24 dev veth0", {("client:veth0", "addresses")}),
        ("client", "ip route del 10.9.0.0/16", {("client", "routes 0")}),
        ("client", "ip -6 route del fd09::/32", {("client", "routes 1")}),
        ("client", "ip neighbour del 10.1.0.9 dev veth0", {("client", "neighbours 0")}),
        ("client", "ip neighbour replace 10.1.0.9 dev veth0 lladdr 02:00:00:00:00:08 nud permanent",
         {("client", "neighbours 0")}),
        (
            "client",
            "sysctl -qw net.ipv6.conf.veth0.hop_limit=44",
            {("client", "sysctls net.ipv6.conf.veth0.hop_limit")},
        ),
        ("switch", "ip link set port0 nomaster", {("switch:port0", "master")}),
    ],
)  # fmt: skip
def test_a_change_by_hand_is_seen_and_mended(node, words, marked, by_hand, drifted, up, name):
    untouched = state(by_hand)
    by_hand(node, *words.split())
    assert marked <= drifted()
    status, output, errors = up()
    assert (errors, status) == ("", 0)
    assert output == f"lab {name} was up, and holds the changes now\n"
    assert drifted() == set()
    assert state(by_hand) ^ untouched == set()
    assert "nothing to do" in up()[1]


def state(by_hand):
    """What `ip`, `tc` and ethtool show of it, without what changes by itself: states, handles."""
    requested = {
        "client": ("ethtool -k veth0", "ethtool -k veth1"),
        "switch": ("ethtool -k port0",),
        "other": ("ethtool -k veth1",),
    }
    same = ("ip -o link", "ip -br address", "ip route", "ip -6 route", "tc qdisc")
    same += ("ip neighbour show nud permanent",)
    return {
        " ".join((node, words, *re.sub(r"qdisc (\w+) [0-9a-f]+:|state \w+", r"\1", line).split()))
        for node, own in requested.items()
        for words in (*own, *same)
        for line in by_hand(node, *words.split()).splitlines()
        if "fe80" not in line
    }


@pytest.mark.parametrize(
    ("words", "marked", "says"),
    [
        ("ip link add extra0 type bridge", ("client", "device"), "client: it has a device {}: extra0"),
        (
            "ip route add 10.20.0.0/16 via 10.1.0.2",
            ("client", "route"),
            "client: it has a route {}: 10.20.0.0/16 via 10.1.0.2",
        ),
        (
            "ip neighbour add 10.1.0.77 dev veth0 lladdr 02:00:00:00:00:77",
            ("client", "neighbour"),
            "client: it has a neighbour {}: 10.1.0.77 dev veth0",
        ),
        ("ip link del veth1", ("client:veth1", "device"), "client:veth1: the device is gone"),
    ],
)
def test_what_only_a_rebuild_mends_is_said(
    words, marked, says, by_hand, drifted, testbed, name, tmp_path, up
):
    by_hand("client", *words.split())
    assert marked in drifted()
    status, output, errors = up()
    assert (status, output, errors.count("\n")) == (1, "", 1)
    assert says.format("that the topology does not state") in errors
    assert "`testbed up --rebuild`" in errors
    assert up("--rebuild")[0] == 0
    assert drifted() == set()


def test_what_set_changes_is_no_drift(by_hand, drifted, testbed, name, up):
    words = [
        "other:veth1.mtu=1400",
        "other:veth1.gso_max_size=30000",
        "other:veth1.gro=on",
        "client:veth1.tso=on",
    ]
    assert testbed("set", name, *words)[0] == 0
    assert drifted() == set()
    assert "nothing to do" in up()[1]
    by_hand("other", "ip", "link", "set", "veth1", "mtu", "1300")
    by_hand("other", "ethtool", "-K", "veth1", "gro", "off")
    assert drifted() == {("other:veth1", "mtu"), ("other:veth1", "gro")}
    up()
    assert "mtu 1400" in by_hand("other", "ip", "link", "show", "veth1")


def test_show_says_what_the_kernel_chose_first(by_hand, testbed, name):
    by_hand("other", "ip", "link", "set", "veth1", "mtu", "1400")
    line = next(line for line in testbed("show", name)[1].splitlines() if line.endswith("drift (was 1500)"))
    assert line.split()[-6:] == ["mtu", "-", "1400", "drift", "(was", "1500)"]
