"""A change of a lab is whole or not at all, and what it does elsewhere in the lab is seen."""

import os
import subprocess
import sys

import pytest

from testbed.cli import main
from testbed.errors import InputError, TestbedError
from testbed.lab import named
from testbed.lab.lab import open_lab, settings_of
from testbed.nodes.sysctl_files import read_sysctl
from testbed.topology.loading import parse_topology

PAIR = """nodes:
  client:
    devices:
      veth0: {kind: veth, peer: server:veth0, addresses: [10.1.0.1/24, "fd01::1/64"]}
    routes: [{to: 10.9.0.0/16, via: 10.1.0.2}, {to: "fd09::/32", via: "fd01::2", mtu: 1400}]
    neighbours: [{to: "fd01::9", dev: veth0, lladdr: 02:00:00:00:00:09}]
  server:
    devices:
      veth0: {addresses: [10.1.0.2/24, "fd01::2/64"]}
"""
BRIDGED = """nodes:
  one: {devices: {veth0: {kind: veth, peer: "switch:port0"}}}
  other: {devices: {veth0: {kind: veth, peer: "switch:port1"}}}
  switch: {devices: {br0: {kind: bridge, ports: [port0, port1]}}}
"""
STACKED = """nodes:
  client:
    devices:
      veth0: {kind: veth, peer: server:veth0}
      vlan0: {kind: vlan, dev: veth0, id: 7, addresses: [10.2.0.1/24]}
      macvlan0: {kind: macvlan, dev: vlan0}
  server: {}
"""
SIZES = ("gso_max_size", "gso_ipv4_max_size", "gro_max_size", "gro_ipv4_max_size")


def lab(text=PAIR, **changes):
    """A lab of `text` in which client:veth0 has `changes`."""
    topology = parse_topology(text, "lab.yaml")
    return open_lab(topology.with_settings({"client:veth0": changes_of(changes)}) if changes else topology)


def changes_of(changes):
    return settings_of("client:veth0", changes)


def everything(lab):
    """What the lab holds of its devices, and the routes and neighbours that it states."""
    return lab.read_back(), [lab.nodes["client"].call(text_of_routes)] if "client" in lab.nodes else []


def text_of_routes():
    shown = [
        subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout
        for words in (["route"], ["-6", "route"], ["-6", "neighbour", "show", "nud", "permanent"])
    ]
    return sorted("".join(shown).splitlines())


def actual(lab, end, *names):
    return tuple(lab.read_back()[end][name] for name in names)


@pytest.mark.parametrize("way", ["gso", "gro"])
def test_a_general_limit_leaves_the_ipv4_one_as_it_is_stated(way):
    """The kernel resets it with a general limit of 65536 or less."""
    with lab(**{f"{way}_ipv4_max_size": 60000, f"{way}_max_size": 64000}) as up:
        for general in (65000, 30000, 65536, 200000, 65000):
            up.set({"client:veth0": {f"{way}_max_size": general}})
            names = (f"{way}_max_size", f"{way}_ipv4_max_size")
            assert actual(up, "client:veth0", *names) == (general, 60000)


def test_an_ipv4_limit_that_nothing_states_is_what_a_new_device_would_have():
    """Not what it was before: the states of an experiment must not depend on their order."""
    with lab() as up:
        for general, ipv4 in ((30000, 30000), (200000, 65536), (65000, 65000), (524280, 65536)):
            up.set({"client:veth0": {"gso_max_size": general, "gro_max_size": general}})
            assert actual(up, "client:veth0", *SIZES) == (general, ipv4) * 2
            with lab(gso_max_size=general, gro_max_size=general) as new:
                assert actual(new, "client:veth0", *SIZES) == (general, ipv4) * 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"client:veth0": {"gso_max_size": 600000, "mtu": 9000, "gro_max_size": 30000}},
            "gso_max_size 600000 is above the device's tso_max_size",
        ),
        (
            {"server:veth0": {"mtu": 1400, "txqueuelen": 7}, "client:veth0": {"gro_max_size": 600000}},
            "gro_max_size 600000 is above",
        ),
        (
            {"*:veth0": {"gso_max_size": 30000, "gro_max_size": 30000, "features": {"lro": True}}},
            "requested features lro (rx-lro) on, the kernel holds off",
        ),
        ({"client:veth0": {"mtu": 1000}}, "fd01::1/64"),
        (
            {"client:veth0": {"features": {"gro": True, "tso": False}, "threaded": True, "mtu": 1000}},
            "fd01::1/64",
        ),
        (
            {"client:veth0": {"qdisc": {"kind": "tbf", "rate": "1gbit", "burst": "32kb", "limit": "1mb"},
             "rps_cpus": [0], "addresses": ["10.7.0.1/24"], "gso_max_size": 2**31}},
            "gso_max_size 2147483648 is above",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_leaves_everything_as_it_was(changes, says):
    with lab(gso_ipv4_max_size=60000, gso_max_size=64000, gro_max_size=100000) as up:
        before, topology = everything(up), up.topology
        with pytest.raises(InputError) as caught:
            up.set(changes)
        assert says in str(caught.value)
        assert "taken back" not in str(caught.value)
        assert everything(up) == before
        assert up.topology is topology
        assert not up.drift()


def test_a_refused_sysctl_takes_the_devices_back_with_it():
    with lab() as up:
        before = everything(up)
        for sysctls in (
            {"client": {"net.ipv4.no_such": 1}},
            {"server": {"net.ipv4.ip_forward": 1}, "client": {"net.ipv4.tcp_congestion_control": "nosuch"}},
        ):
            with pytest.raises(InputError, match="sysctl"):
                up.change({"*:veth0": {"mtu": 9000, "gso_max_size": 30000}}, sysctls)
            assert everything(up) == before
            assert up.nodes["server"].call(forwarding) == "0"


def forwarding():
    return read_sysctl("net.ipv4.ip_forward")


def test_a_route_keeps_its_mtu_when_the_devices_rises():
    """The kernel raises it with the device's, where they are equal."""
    with lab() as up:
        for mtu in (1400, 1500, 9000):
            up.set({"client:veth0": {"mtu": mtu}})
            assert "mtu 1400" in next(line for line in everything(up)[1][0] if line.startswith("fd09::"))


def test_an_mtu_may_come_with_the_addresses_that_it_allows():
    with lab("nodes: {client: {devices: {veth0: {kind: veth, peer: server:veth0, "
             "addresses: [10.1.0.1/24, 'fd01::1/64']}}}, server: {}}") as up:  # fmt: skip
        up.set({"client:veth0": {"mtu": 1000, "addresses": ["10.1.0.1/24"]}})
        assert actual(up, "client:veth0", "mtu", "addresses") == (1000, ["10.1.0.1/24"])
        up.set({"client:veth0": {"mtu": 1500, "addresses": ["10.1.0.1/24", "fd01::1/64"]}})
        assert {"10.1.0.1/24", "fd01::1/64"} <= {*actual(up, "client:veth0", "addresses")[0]}


def test_a_bridge_that_would_follow_its_port_is_an_error_until_it_is_requested():
    with lab(BRIDGED) as up:
        before = everything(up)
        with pytest.raises(
            InputError, match=r"switch:br0: mtu would go from 1500 to 1400 .*switch:br0.mtu=1400"
        ):
            up.set({"switch:port0": {"mtu": 1400}})
        assert everything(up) == before
        up.set({"switch:port0": {"mtu": 1400}, "switch:br0": {"mtu": 1500}})
        assert actual(up, "switch:br0", "mtu") == (1500,)
        up.set({"*:*": {"mtu": 9000}})
        assert {up.read_back()[end]["mtu"] for end in up.read_back()} == {9000}


@pytest.mark.requires("vlan", "macvlan")
def test_devices_on_top_of_one_whose_mtu_falls_are_not_changed_behind_the_users_back():
    with lab(STACKED) as up:

        def set_all(*mtus):
            devices = ("macvlan0", "vlan0", "veth0")
            up.set({f"client:{d}": {"mtu": mtu} for d, mtu in zip(devices, mtus, strict=True)})
            assert [up.read_back()[f"client:{d}"]["mtu"] for d in devices] == list(mtus)

        before = everything(up)
        with pytest.raises(InputError, match=r"client:vlan0: mtu would go from 1500 to 1400"):
            up.set({"*:veth0": {"mtu": 1400}})
        assert everything(up) == before
        set_all(1300, 1350, 1400)
        set_all(8800, 8900, 9000)


def test_features_that_follow_are_told_and_come_back():
    with lab(BRIDGED) as up:
        before = everything(up)
        followed = up.set({"switch:port*": {"features": {"sg": False}}})
        assert ("switch:br0", "tx-scatter-gather", True, False) in {
            (str(move.end), move.setting, move.before, move.after) for move in followed
        }
        up.set({"switch:port*": {"features": {"sg": True}}})
        assert everything(up) == before


def test_a_stated_feature_that_would_follow_is_an_error():
    text = BRIDGED.replace("kind: bridge,", "kind: bridge, features: {sg: on},")
    with lab(text) as up:
        before = everything(up)
        with pytest.raises(InputError, match="switch:br0: requested features sg"):
            up.set({"switch:port*": {"features": {"sg": False}}})
        assert everything(up) == before


@pytest.fixture
def name():
    name = f"t{os.getpid()}"
    yield name
    if any(lab.name == name for lab in named.labs()):
        named.take_down(name)


def test_a_changed_file_is_applied_whole_or_not_at_all(name):
    def up(limit, mtu=1500):
        text = BRIDGED.replace("{veth0: {", f"{{veth0: {{mtu: {mtu}, ", 1).replace(
            "{veth0: {kind", f"{{veth0: {{gso_ipv4_max_size: 60000, gso_max_size: {limit}, kind"
        )
        return named.bring_up(parse_topology(text), name, "")

    assert up(64000) == "built"
    assert up(65000) == "changed"
    with named.attached(name) as lab:
        before = everything(lab)
        assert actual(lab, "other:veth0", *SIZES[:2]) == (65000, 60000)
    with pytest.raises(TestbedError, match="mtu 70000"):
        up(30000, mtu=70000)
    with named.attached(name) as lab:
        assert everything(lab) == before
    assert up(65000) == "unchanged"


def test_the_command_tells_what_follows_and_leaves_what_it_refuses(name, capsys, monkeypatch):
    def set_(*words):
        monkeypatch.setattr(sys, "argv", ["testbed", "set", name, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    named.bring_up(parse_topology(BRIDGED, "bridged.yaml"), name, "")
    status, output, _ = set_("switch:port*.sg=off")
    assert status == 0
    assert "switch:br0 follows: tx-scatter-gather off" in output
    status, output, errors = set_("switch:port0.mtu=1400", "one:veth0.gso_max_size=30000")
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert "switch:br0: mtu would go from 1500 to 1400" in errors
    with named.attached(name) as up:
        assert actual(up, "one:veth0", *SIZES[:2]) == (65536, 65536)
        assert not up.drift()
