"""What is added to pyroute2's tables: with the kernel's numbers, and only where it is lacking."""

import pytest
from pyroute2.netlink import nla, nlmsg

from testbed.netlink import lacking, message, remembered
from testbed.netlink.message import LinkEnd


def table(*names):
    """A message whose table has these attributes, used once with it."""

    class holder(nlmsg):
        nla_map = tuple((name, "uint32") for name in names)

    holder()
    return holder


def test_a_table_that_is_too_short_is_completed_though_it_was_used():
    short = table("A_UNSPEC", "A_ONE")
    lacking.complete(short, {1: ("A_ONE", "uint32"), 2: ("A_TWO", "uint32")})
    made = short()
    made["attrs"] = [("A_TWO", 5)]
    made.encode()
    assert bytes(made.data[16:]) == bytes([8, 0, 2, 0, 5, 0, 0, 0])


def test_a_table_that_has_it_stays_as_it_is():
    long = table("A_UNSPEC", "A_ONE", "A_TWO", "A_THREE")
    before = long.nla_map
    lacking.complete(long, {1: ("A_ONE", "uint32"), 2: ("A_TWO", "uint32")})
    assert long.nla_map == before


@pytest.mark.parametrize("names", [("A_UNSPEC",), ("A_UNSPEC", "A_OTHER"), ("A_UNSPEC", "A_TWO", "A_ONE")])
def test_a_table_that_counts_otherwise_is_refused(names):
    with pytest.raises(ImportError, match="does not have A_ONE as attribute 1 of holder"):
        lacking.complete(table(*names), {1: ("A_ONE", "uint32"), 2: ("A_TWO", "uint32")})


def test_numbers_are_the_kernels():
    """include/uapi/linux/if_link.h, pkt_sched.h, netdev.h."""
    kinds, qdiscs = lacking.ifinfmsg.ifinfo.data_map, lacking.tcmsg()
    from pyroute2.netlink.rtnl.tcmsg import plugins

    expected = {
        (lacking.ifinfmsg, "IFLA_GSO_IPV4_MAX_SIZE"): 63,
        (lacking.ifinfveth, "IFLA_GRO_IPV4_MAX_SIZE"): 64,
        (kinds["netkit"], "IFLA_NETKIT_MODE"): 5,
        (kinds["ipvlan"], "IFLA_IPVLAN_FLAGS"): 2,
        (plugins["fq"].options, "TCA_FQ_FLOW_MAX_RATE"): 7,
        (plugins["tbf"].options, "TCA_TBF_RATE64"): 4,
        (plugins["tbf"].options, "TCA_TBF_BURST"): 6,
        (plugins["netem"].options, "TCA_NETEM_RATE64"): 8,
        (plugins["netem"].options, "TCA_NETEM_LATENCY64"): 10,
        (plugins["netem"].options, "TCA_NETEM_JITTER64"): 11,
        (lacking.dmabuf, "NETDEV_A_DMABUF_FD"): 3,
    }
    assert {key: remembered.numbers(key[0])[key[1]] for key in expected} == expected
    assert qdiscs is lacking.tcmsg()


def test_what_was_added_is_encoded_and_read():
    far = LinkEnd("far", 4, {"gro_ipv4_max_size": 131072})
    request = message.new_link(LinkEnd("near", 3, {"gso_ipv4_max_size": 70000}), "veth", peer=far)
    assert bytes.fromhex("08003f0070110100") in request.body
    assert bytes.fromhex("0800400000000200") in request.body


def test_a_kind_is_added_only_where_pyroute2_has_none():
    assert issubclass(lacking.ifinfmsg.ifinfo.data_map["netkit"], nla)
