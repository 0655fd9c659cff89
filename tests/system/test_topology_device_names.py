"""What `check` calls a device's name is what this kernel makes a device of."""

import os
from contextlib import closing

import pytest

from testbed.netlink.channel import Channel
from testbed.netlink.message import LinkEnd, new_link
from testbed.netlink.namespaces import new_namespace
from testbed.topology.names import device_name

NAMES = ["all", "default", "conf", ".", "..", "a/b", "a:b", "a b", "a\tb", "à", "ä", "é" * 7, "é" * 8]
NAMES += ["x" * 15, "x" * 16, "a[0]", "a=b", "-x", "eth0.100", "a%", "%"]


@pytest.fixture
def channel():
    namespace = new_namespace()
    with closing(Channel(namespace)) as opened:
        yield opened
    os.close(namespace)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_good_where_the_kernel_makes_a_device_of_it(channel, name):
    pair = new_link(LinkEnd(name, 1001), "veth", peer=LinkEnd("peer", 1002))
    refused = bool(channel.send([pair]))
    if refused:
        with pytest.raises(ValueError):
            device_name(name)
    else:
        assert device_name(name) == name
