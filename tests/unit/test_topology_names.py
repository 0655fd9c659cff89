"""Names: the kernel's rules for devices, and what /run/netns and files need for nodes and labs."""

import pytest

from testbed.topology.names import device_name, fits, lab_name, node_name


@pytest.mark.parametrize("name", ["eth0.100", "a[0]", "a=b", "-x", "ä", "ーーーーー", "x" * 15, "é" * 7])
def test_what_the_kernel_takes_is_a_devices_name(name):
    assert device_name(name) == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("é" * 8, "'éééééééé' is 8 characters long (16 bytes), a device's name has at most 15 bytes"),
        ("x" * 16, "is 16 characters long, a device's name has at most 15 bytes"),
        ("all", "'all' is not a device's name: /proc/sys/net/ipv4/conf/all is there for every device"),
        ("default", "/proc/sys/net/ipv4/conf/default is there for every device"),
        ("a b", "'a b' is not a device's name: no space"),
        ("à", "'à' is not a device's name: no byte 0xa0, which is a space to the kernel"),
        ("a\u2003b", "no / : * % or control character"),
        ("a\x1b[2J", "no / : * % or control character"),
        ("a/b", "no / : * % or control character"),
        ("a:b", "no / : * % or control character"),
        ("a%d", "no / : * % or control character"),
        ("veth*", "no / : * % or control character"),
        (".", "the kernel takes neither"),
        ("..", "the kernel takes neither"),
        ("", "the kernel takes neither"),
        ("lo", "every node has its lo already"),
        ("\ud800", "control character"),
    ],
)
def test_what_it_does_not_take_is_refused_with_the_rule(name, says):
    with pytest.raises(ValueError) as error:
        device_name(name)
    assert says in str(error.value)


@pytest.mark.parametrize("name", ["client", "10g", "a.b", "A_1-x", "n" * 64])
def test_nodes_and_labs_are_called_what_a_file_may_be_called(name):
    assert node_name(name) == lab_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "-a", "a/b", "a b", "ä", "a\n", "a:b", "*", "n" * 65])
def test_other_names_of_nodes_and_labs_are_refused(name):
    for check in (node_name, lab_name):
        with pytest.raises(ValueError, match="letters, digits"):
            check(name)


def test_only_the_asterisk_is_a_wildcard():
    assert fits("veth0", "*") and fits("veth0", "v*0") and fits("a[0]", "a[0]")
    assert not fits("a0", "a[0]")
    assert not fits("veth0", "veth?")
