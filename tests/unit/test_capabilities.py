"""What an experiment may require, compared with what was found."""

import pytest

from testbed.capabilities import Capabilities, parse_requirement, unmet

FOUND = {
    "veth.max_mtu": 65535,
    "veth.tso_max_size": 524280,
    "veth": True,
    "bpf": True,
    "perf": False,
    "iperf3": "3.12",
    "kernel": "7.3.4+deb13-cloud-amd64",
}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("veth.tso_max_size", ">= 524280"),
        ("veth.max_mtu", "< 524280"),
        ("veth.max_mtu", 65535),
        ("bpf", True),
        ("iperf3", "true"),
        ("iperf3", ">= 3.9"),
        ("kernel", ">= 7.3"),
        ("kernel", "== 7.3"),
        ("kernel", ">= 7"),
        ("kernel", "< 7.10"),
        ("perf", "false"),
        ("perf", "!= true"),
        ("netkit", "== no"),
    ],
)
def test_a_requirement_that_holds_gives_no_reason(name, asked):
    assert unmet({name: asked}, FOUND) == []


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("veth.max_mtu", ">= 524280", "veth.max_mtu is 65535, needed >= 524280"),
        ("iperf3", ">= 3.16", "iperf3 is 3.12, needed >= 3.16"),
        ("kernel", ">= 7.3.5", "kernel is 7.3.4+deb13-cloud-amd64, needed >= 7.3.5"),
        ("perf", "true", "perf is missing"),
        ("netkit.max_mtu", ">= 1500", "netkit.max_mtu is missing"),
        ("veth", "false", "veth must not be there, but is"),
    ],
)
def test_a_requirement_that_fails_says_what_is_and_what_was_needed(name, asked, reason):
    assert unmet({name: asked}, FOUND) == [reason]


def test_every_failed_requirement_is_named_in_the_order_asked():
    reasons = unmet({"perf": True, "bpf": True, "veth.max_mtu": "> 65535"}, FOUND)
    assert reasons == ["perf is missing", "veth.max_mtu is 65535, needed > 65535"]


def test_the_reason_of_a_missing_kind_explains_its_attributes_too():
    here = Capabilities({"netkit": False}, {"netkit": "needs CONFIG_NETKIT"})
    assert here.unmet({"netkit.max_mtu": ">= 1"}) == ["netkit.max_mtu is missing: needs CONFIG_NETKIT"]
    assert not here.has("netkit")


@pytest.mark.parametrize("asked", ["", ">=", ">= 5 bytes", "> true", "=> 5 6"])
def test_what_is_no_comparison_is_refused(asked):
    with pytest.raises(ValueError, match=r"comparison|compared"):
        parse_requirement(asked)
