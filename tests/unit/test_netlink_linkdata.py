"""The attributes of each link kind, held against pyroute2's encoding of the same."""

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from testbed.netlink.linkdata import ATTRIBUTES, link_data

SAMPLES = {"GROUP": "192.0.2.1", "LOCAL": "192.0.2.2", "REMOTE": "192.0.2.3"}
CASES = [
    (kind, name)
    for kind, attributes in ATTRIBUTES.items()
    if kind in ifinfmsg.ifinfo.data_map
    for name in attributes
    if name in {row[-2] for row in ifinfmsg.ifinfo.data_map[kind].nla_map}
]


def theirs(kind, values):
    data = ifinfmsg.ifinfo.data_map[kind]()
    data["attrs"] = list(values.items())
    data.encode()
    return bytes(data.data[4:])


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_an_attribute_of_a_kind_is_encoded_as_pyroute2_does(kind, name):
    word = name.rsplit("_", 1)[1]
    value = "2001:db8::1" if word.endswith("6") else SAMPLES.get(word, 1)
    if name in {"IFLA_MACVLAN_MODE", "IFLA_VLAN_PROTOCOL"}:  # pyroute2 wants words here
        value, word = {"IFLA_MACVLAN_MODE": (4, "bridge"), "IFLA_VLAN_PROTOCOL": (0x8100, 0x8100)}[name]
        assert link_data(kind, {name: value}) == theirs(kind, {name: word})
        return
    assert link_data(kind, {name: value}) == theirs(kind, {name: value})


def test_attributes_keep_their_order():
    both = link_data("vxlan", {"IFLA_VXLAN_ID": 7, "IFLA_VXLAN_PORT": 4789})
    assert both == link_data("vxlan", {"IFLA_VXLAN_ID": 7}) + link_data("vxlan", {"IFLA_VXLAN_PORT": 4789})


def test_an_attribute_that_is_not_known_is_an_error_and_not_dropped():
    with pytest.raises(KeyError, match="IFLA_VXLAN_NONSENSE"):
        link_data("vxlan", {"IFLA_VXLAN_NONSENSE": 1})
