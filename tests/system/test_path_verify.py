"""`testbed path` on the running kernel: what it predicts is what a flow shows, hop by hop."""

import json
import platform
import sys

import pytest

from testbed.cli import main
from testbed.cli.path import changed
from testbed.kernels.running import kernel_config
from testbed.lab.lab import open_lab
from testbed.path.forecast import forecast
from testbed.path.predict import traits_of
from testbed.path.verify import check_path, judge, observe
from testbed.topology.loading import load_topology

pytestmark = pytest.mark.requires("bpf", "iperf3")

BIG = [
    f"*:veth*.{name}=524280"
    for name in ("gso_max_size", "gso_ipv4_max_size", "gro_max_size", "gro_ipv4_max_size")
]
MIXED = [f"client:veth0.{name}=524280" for name in ("gso_max_size", "gso_ipv4_max_size")]
TUNNEL_128K = [f"*:vxlan0.{name}=131072" for name in ("gso_max_size", "gso_ipv4_max_size")]


@pytest.fixture
def path(capsys, monkeypatch):
    """`testbed path WORDS` in this process: its exit status, stdout and stderr."""

    def run(*words, changes=()):
        options = [word for change in changes for word in ("--set", change)]
        monkeypatch.setattr(sys, "argv", ["testbed", "path", *words, *options])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def hops(path):
    """The same with --json: `node:device direction` -> hop."""

    def run(*words, changes=()):
        status, output, errors = path(*words, "--json", changes=changes)
        assert status == 0, output + errors
        return {f"{hop['device']} {hop['direction']}": hop for hop in json.loads(output)["hops"]}

    return run


def this_kernels_traits():
    config = kernel_config()
    return traits_of(platform.release(), config and config.decode())


@pytest.mark.parametrize(
    ("topology", "target", "family", "changes"),
    [
        ("veth-pair", "server", 6, []),
        ("veth-router", "server", 4, BIG),
        ("bridge-tap", "guest", 4, []),
        ("bridge-tap", "guest", 4, MIXED),
        ("vxlan", "server", 6, []),
        ("vxlan", "server", 4, TUNNEL_128K),
        ("vxlan", "server", 6, TUNNEL_128K),
    ],
)
def test_prediction_agrees_with_a_flow(topology, target, family, changes):
    with open_lab(changed(load_topology(topology), changes)) as lab:
        predicted = forecast(lab, "client", target, family, this_kernels_traits())
        checked = check_path(lab, predicted, "client", target, family)
    assert {f"{c.hop.reference} {c.hop.direction}: {c}" for c in checked if not c.agrees} == set()
    assert checked
    assert all(c.seen is not None for c in checked)


def test_mixed_path_is_cut_at_the_tap_and_not_before(hops):
    found = hops("bridge-tap", "client", "guest", "--verify", changes=MIXED)
    assert (found["switch:port0 rx"]["largest"], found["switch:port0 rx"]["gso"]) == (524170, True)
    tap = found["switch:tap0 tx"]
    assert (tap["largest"], tap["seen"], tap["cut"]) == (1514, 1514, "MSS segments")
    assert tap["why"] == "gso_max_size 65536"


def test_a_kernel_declared_to_resegment_is_predicted_to(hops):
    found = hops("bridge-tap", "client", "guest", "--declare", "resegment", changes=MIXED)
    assert (found["switch:tap0 tx"]["largest"], found["switch:tap0 tx"]["cut"]) == (64346, "bounded GSO")


def test_a_wrong_prediction_is_found_out():
    """The limit is lowered behind the prediction's back: the flow must disagree with it."""
    with open_lab("veth-pair") as lab:
        lab.set({"*:veth0": {"gso_max_size": 524280}})
        predicted = forecast(lab, "client", "server", 6, this_kernels_traits())
        lab.set({"*:veth0": {"gso_max_size": 65536}})
        seen = observe(lab, "client", "server", 6, mss=predicted[0].mss)
    assert not any(judge(hop, seen[hop.reference, hop.direction]).agrees for hop in predicted)


@pytest.mark.parametrize(
    ("words", "changes", "message"),
    [
        (["veth-pair", "client", "sever"], [], "no node 'sever', did you mean 'server'"),
        (["veth-pair", "client", "client"], [], "client is both"),
        (["veth-pair", "clent", "server"], [], "no node 'clent', did you mean 'client'"),
        (["veth-pair", "client", "server", "--family", "5"], [], "--family 5: it is 4 or 6"),
        (["bridge-tap", "client", "switch"], [], "switch: the topology gives it no IPv6 address"),
        (["veth-pair", "client", "server"], ["client:veth0.gso_max_siz=1"], "did you mean 'gso_max_size'"),
        (["veth-pair", "client", "server"], ["client:eth0.mtu=1400"], "'client:eth0' names no device"),
        (["veth-pair", "client", "server", "--declare", "resegmnt"], [], "did you mean 'resegment'"),
        (["no-such", "client", "server"], [], "no topology 'no-such'"),
    ],
)
def test_what_cannot_be_asked_is_one_line(path, words, changes, message):
    status, output, errors = path(*words, changes=changes)
    assert (status, output) == (2, "")
    assert errors.startswith("testbed: ") and errors.count("\n") == 1
    assert message in errors
