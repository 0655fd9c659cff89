"""Which states of an experiment can run, from what was found."""

import pytest

from testbed.capabilities import Capabilities
from testbed.experiments.resolve import load_experiment
from testbed.probing.table import table
from testbed.running.readiness import lacking

STOCK = {
    "root": True,
    "cores": 2,
    "veth": True,
    "veth.max_mtu": 65535,
    "veth.tso_max_size": 524280,
    "iperf3": "3.12",
}


@pytest.fixture(scope="module")
def nagle():
    return load_experiment("nagle")


def test_a_stock_kernel_runs_all_of_nagle_but_the_jumbogram(nagle):
    lacks = lacking(nagle, Capabilities(STOCK))
    assert lacks.pop("jumbogram") == ["veth.max_mtu is 65535, needed >= 524280"]
    assert lacks
    assert not any(lacks.values())


def test_link_kind_tool_and_cpus_are_needed_though_the_file_does_not_say_so(nagle):
    found = Capabilities({**STOCK, "veth": False, "iperf3": False, "cores": 1}, {"iperf3": "not installed"})
    assert lacking(nagle, found)["big-tcp"] == [
        "iperf3 is missing: not installed",
        "veth is missing",
        "cores is 1, needed >= 2",
    ]


def test_one_cpu_is_enough_for_a_state_pinned_to_one(nagle):
    assert lacking(nagle, Capabilities({**STOCK, "cores": 1}))["big-tcp-one-cpu"] == []


def test_the_table_shows_values_attributes_and_reasons():
    found = Capabilities(
        {"veth": True, "veth.max_mtu": 65535, "netkit": False, "iperf3": "3.12"},
        {"netkit": "CONFIG_NETKIT"},
    )
    text = table(
        found,
        {"links": ["veth", "netkit"], "tools": ["iperf3"]},
        {"nagle": {"plain": [], "jumbogram": ["veth.max_mtu is 65535, needed >= 524280"]}},
    )
    assert text.splitlines() == [
        "links",
        "  veth            yes, max_mtu 65535",
        "  netkit          no: CONFIG_NETKIT",
        "tools",
        "  iperf3          3.12",
        "experiments",
        "  nagle           1 of 2 states can run here",
        "    jumbogram: veth.max_mtu is 65535, needed >= 524280",
    ]
