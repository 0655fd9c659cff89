"""What a changed file does to a lab that is up: applied live, or a reason for a rebuild."""

import pytest

from testbed.errors import InputError
from testbed.lab.changes import changes
from testbed.topology.assignment import parse_assignments
from testbed.topology.loading import parse_topology

PAIR = """nodes:
  client:
    devices: {veth0: {kind: veth, peer: server:veth0, mtu: 1500, features: {tso: off}}}
    sysctls: {net.ipv4.ip_forward: 1}
  server:
    devices: {veth0: {addresses: [10.1.0.2/24]}}
"""


def found(before, after):
    return changes(parse_topology(PAIR), parse_topology(PAIR.replace(before, after)))


def test_the_same_file_changes_nothing():
    assert not changes(parse_topology(PAIR), parse_topology(PAIR))


def test_only_what_changed_is_set():
    change = found("mtu: 1500", "mtu: 9000, gso_max_size: 70000")
    assert change.rebuild is None
    settings = change.settings["client:veth0"]
    assert settings.model_fields_set == {"mtu", "gso_max_size"}
    assert (settings.mtu, settings.gso_max_size) == (9000, 70000)
    assert list(change.settings) == ["client:veth0"]


def test_a_sysctl_that_changed_is_set():
    assert found("ip_forward: 1", "ip_forward: 0").sysctls == {"client": {"net.ipv4.ip_forward": 0}}


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("mtu: 1500, ", "", "client:veth0: mtu is not stated any more"),
        ("{tso: off}", "{gso: off}", "client:veth0: features tso is not stated any more"),
        ("    sysctls: {net.ipv4.ip_forward: 1}\n", "", "client: a sysctl is not stated any more"),
        ("  server:\n", "  other: {}\n  server:\n", "node other is new"),
        ("mtu: 1500", "num_tx_queues: 2, mtu: 1500", "client:veth0: num_tx_queues changed, which is fixed"),
        (
            "    sysctls",
            "    routes: [{to: 10.0.0.0/8, dev: veth0}]\n    sysctls",
            "client: its routes changed",
        ),
        ("veth0: {addresses", "veth1: {kind: dummy}\n      veth0: {addresses", "server:veth1 is new"),
    ],
)
def test_what_cannot_be_changed_live_is_a_reason(before, after, reason):
    text = PAIR.replace(
        "devices: {veth0: {addresses: [10.1.0.2/24]}}", "devices:\n      veth0: {addresses: [10.1.0.2/24]}"
    )
    old = parse_topology(text)
    change = changes(old, parse_topology(text.replace(before, after)))
    assert change.rebuild is not None
    assert change.rebuild.startswith(reason)


def test_an_assignment_names_a_setting_or_a_feature():
    texts = [
        "client:veth0.mtu=9000",
        "client:veth0.tso=off",
        "*:eth0.100.features.gro=on",
        "*:eth0.100.mtu=1400",
    ]
    assert parse_assignments(texts) == {
        "client:veth0": {"mtu": 9000, "tso": False},
        "*:eth0.100": {"gro": True, "mtu": 1400},
    }


@pytest.mark.parametrize("text", ["client.mtu=1", "client:veth0=1", "client:veth0.mtu", ":veth0.mtu=1"])
def test_what_is_no_assignment_is_told(text):
    with pytest.raises(InputError, match=r"expected NODE:DEVICE\.SETTING=VALUE"):
        parse_assignments([text])
