"""What the kernel refuses without words is told with the rule behind it, the file's line and the name."""

import pytest

from testbed.errors import InputError
from testbed.lab.lab import open_lab
from testbed.topology.loading import parse_topology

PAIR = "nodes:\n  a:\n    devices:\n      v: {{kind: veth, peer: 'b:w', {}}}\n{}  b: {{}}\n"


@pytest.mark.parametrize(
    ("settings", "more", "says"),
    [
        ("mtu: 67", "", "t.yaml:4: a:v: mtu 67 is below what a veth accepts, 68 (kernel: "),
        (
            "gso_max_size: 1",
            "",
            "t.yaml:4: a:v: gso_max_size 1 was refused (kernel: integer out of range); ",
        ),
        ("rps_cpus: [4095]", "", "; this kernel has no such CPU"),
        ("threaded: on", "", "; only a device that is polled has it: a veth is with `gro: on`"),
        (
            "mtu: 1500",
            "      b0: {kind: bridge, ports: [b1]}\n      b1: {kind: bridge}\n",
            "a:b0: port b1 was refused (kernel: Can not enslave a bridge to a bridge); a bridge cannot",
        ),
        (
            "addresses: [10.0.0.1/24]",
            "    routes: [{to: 10.0.0.0/24, dev: v, metric: 0}]\n",
            "t.yaml:5: a: route add 10.0.0.0/24 dev v metric 0 was refused (kernel: File exists); the",
        ),
        (
            "addresses: [10.0.0.1/24]",
            "    routes: [{to: 10.9.0.0/16, via: 10.3.0.1}]\n",
            "; no device of the node has an address in the network of the next hop 10.3.0.1",
        ),
    ],
)
def test_a_refusal_has_its_rule(settings, more, says):
    with pytest.raises(InputError) as caught, open_lab(parse_topology(PAIR.format(settings, more), "t.yaml")):
        pass
    assert says in str(caught.value)


def test_ipv6_below_its_least_mtu_is_told_where_the_file_does_not_state_the_mtu():
    """A bridge's MTU follows its lowest port, so the file alone does not show it."""
    text = PAIR.format("mtu: 1000", "      br: {kind: bridge, ports: [v], addresses: ['fd00::1/64']}\n")
    with pytest.raises(InputError) as caught, open_lab(parse_topology(text, "t.yaml")):
        pass
    assert "t.yaml:5: a:br: address add fd00::1/64" in str(caught.value)
    assert "; IPv6 needs an mtu of at least 1280 on the device" in str(caught.value)
