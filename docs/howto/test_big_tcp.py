"""BIG TCP through a router. Copy this file, and run it as root: pytest test_big_tcp.py"""

import pytest

LIMITS = {"gso_max_size": 128000, "gro_max_size": 128000}
FLOW = {"tool": "iperf3", "from": "client", "to": "server", "duration": 1}


@pytest.mark.topology("veth-router")
@pytest.mark.capabilities("iperf3", "bpf")
def test_large_packets_cross_the_router_whole(lab, flow):
    lab.set({"*:veth*": LIMITS})
    seen = flow(lab, FLOW)
    assert seen.largest("router:veth0") > 65536
    assert seen.largest("server:veth0") > 65536


@pytest.mark.topology("veth-router")
@pytest.mark.capabilities("iperf3", "bpf")
def test_router_without_tso_and_gro_cuts_them(lab, flow):
    lab.set({"*:veth*": LIMITS, "router:veth*": {"features": {"tso": False, "gro": False}}})
    seen = flow(lab, FLOW)
    assert seen.largest("router:veth0") > 65536
    assert seen.largest("server:veth0") <= 1442 + 14


@pytest.mark.capabilities(veth_max_mtu=">= 524280")
def test_a_jumbogram_needs_a_kernel_whose_veth_takes_it(lab):
    lab.set({"*:veth0": {"mtu": 524280}})
    assert lab.read_back()["client:veth0"]["mtu"] == 524280
