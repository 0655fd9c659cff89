"""Queues, steering, threaded NAPI, qdiscs, routes and neighbours: requested, read back, refused."""

import json
import subprocess

import pytest

from testbed.errors import InputError, MissingCapability
from testbed.lab.lab import open_lab
from testbed.probing import find
from testbed.topology.loading import parse_topology

PAIR = """nodes:
  client:
    devices:
      veth0:
        kind: veth
        peer: server:veth0
        addresses: [10.1.0.1/24, "fd01::1/64"]
        {client}
    {node}
  server:
    devices:
      veth0: {{addresses: [10.1.0.2/24], {server}}}
"""


def lab(client="", server="", node=""):
    """`client` are settings of veth0 with "; " between, `server` with ", "."""
    client = client.replace("; ", "\n        ")
    return open_lab(parse_topology(PAIR.format(client=client, server=server, node=node), "pair.yaml"))


def inside(lab, *argv):
    process = lab.nodes["client"].start(argv, role="look", stdout=subprocess.PIPE)
    output = process.stdout.read().decode()
    assert process.wait(20).status == 0
    return output


def test_queues_segments_and_queue_length_are_read_back():
    with lab("num_tx_queues: 4; num_rx_queues: 3; gso_max_segs: 100; txqueuelen: 77") as up:
        shown = json.loads(inside(up, "ip", "-j", "-d", "link", "show", "veth0"))[0]
    assert (shown["num_tx_queues"], shown["num_rx_queues"]) == (4, 3)
    assert (shown["gso_max_segs"], shown["txqlen"]) == (100, 77)


def test_queues_cannot_change_live():
    with lab() as up, pytest.raises(InputError, match="client:veth0: num_tx_queues is fixed when"):
        up.set({"client:veth0": {"num_tx_queues": 2}})


def test_steering_holds_for_every_queue():
    with lab(
        "num_rx_queues: 2\n        num_tx_queues: 2\n        rps_cpus: [0, 1]\n        xps_cpus: [1]"
    ) as up:
        actual = up.read_back()["client:veth0"]
        assert (actual["rps_cpus"], actual["xps_cpus"]) == ([[0, 1], [0, 1]], [[1], [1]])
        up.set({"client:veth0": {"rps_cpus": []}})
        assert up.read_back()["client:veth0"]["rps_cpus"] == [[], []]


def test_threaded_napi_needs_gro():
    with lab("features: {gro: on}; threaded: on") as up:
        assert up.read_back()["client:veth0"]["threaded"] is True
    with pytest.raises(InputError, match=r"pair.yaml:\d+: client:veth0: .*threaded on"):
        lab("threaded: on").close()


def test_a_token_bucket_is_read_back_and_holds_traffic_back():
    with lab("qdisc: {kind: tbf, rate: 10gbit, burst: 64kb, limit: 1mb}") as up:
        actual = up.read_back()["client:veth0"]
        assert actual["qdisc"] == "tbf"
        assert actual["qdisc_options"]["rate"] == 10**10 / 8
        assert actual["qdisc_options"]["limit"] == 1 << 20
        assert abs(actual["qdisc_options"]["burst"] - (64 << 10)) < 200
        for rate in (5, 20):
            up.set(
                {
                    "client:veth0": {
                        "qdisc": {"kind": "tbf", "rate": f"{rate}gbit", "burst": "64kb", "limit": "1mb"}
                    }
                }
            )
            assert up.read_back()["client:veth0"]["qdisc_options"]["rate"] == rate * 10**9 / 8
        up.set({"client:veth0": {"qdisc": "noqueue"}})
        up.set({"client:veth0": {"qdisc": "noqueue"}})
        assert up.read_back()["client:veth0"]["qdisc"] == "noqueue"


def test_a_qdisc_that_the_kernel_lacks_is_a_missing_capability():
    if find(["netem"]).has("netem"):
        pytest.skip("this kernel has netem")
    with pytest.raises(MissingCapability) as caught:
        lab("qdisc: {kind: netem, delay: 10ms, loss: 1%, rate: 1gbit}")
    assert str(caught.value).startswith("pair.yaml:8: client:veth0: this kernel has no qdisc netem")
    assert "CONFIG_NET_SCH_NETEM" in str(caught.value)


@pytest.mark.parametrize(
    ("qdisc", "says"),
    [
        ("tbff", "unknown qdisc 'tbff', did you mean 'tbf'?"),
        ("{kind: tbf, rate: 1gbit, burst: 32kb}", "the key 'limit' is missing"),
        (
            "{kind: tbf, rate: 1gb, burst: 32kb, limit: 1mb}",
            "500M, 10G or 1gbit, got '1gb'",
        ),
        ("{kind: netem, loss: 101%}", "less than or equal to 1, got '101%'"),
    ],
)
def test_a_mistake_in_a_qdisc_is_one_line(qdisc, says):
    with pytest.raises(InputError) as caught:
        lab(f"qdisc: {qdisc}")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_route_metrics_and_neighbours_are_read_back():
    node = (
        "routes: [{to: 10.9.0.0/16, via: 10.1.0.2, metric: 7, mtu: 1400, initcwnd: 20, advmss: 1300}, "
        "{to: default, via: 'fd01::2', mtu: 1300}]\n"
        "    neighbours: [{to: 10.1.0.9, dev: veth0, lladdr: 02:00:00:00:00:09}]"
    )
    with lab(node=node) as up:
        route = inside(up, "ip", "route", "show", "10.9.0.0/16")
        default = inside(up, "ip", "-6", "route", "show", "default")
        neighbour = inside(up, "ip", "neighbour", "show", "10.1.0.9")
    assert "via 10.1.0.2" in route
    assert "metric 7 mtu 1400 advmss 1300 initcwnd 20" in route
    assert "via fd01::2" in default
    assert "mtu 1300" in default
    assert "lladdr 02:00:00:00:00:09 PERMANENT" in neighbour


def test_a_route_that_cannot_be_is_told_with_its_line():
    with pytest.raises(
        InputError, match=r"pair.yaml:9: client: route add 10.9.0.0/16 via 10.7.0.1 was refused"
    ):
        lab(node="routes: [{to: 10.9.0.0/16, via: 10.7.0.1}]")
