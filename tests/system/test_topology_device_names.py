"""What `check` calls a device's name is what this kernel makes a device of."""

import subprocess

import pytest

from testbed.topology.names import device_name

NAMES = ["all", "default", "conf", ".", "..", "a/b", "a:b", "à", "ä", "é" * 7, "x" * 15, "a[0]", "a=b"]
NAMES += ["-x", "eth0.100", "a%", "%"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_good_where_the_kernel_makes_a_device_of_it(name):
    """Names that iproute2 itself refuses, too long or with a space, are not among these."""
    made = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "name", name, "type", "veth"], capture_output=True
    )
    if made.returncode:
        with pytest.raises(ValueError):
            device_name(name)
    else:
        assert device_name(name) == name
