"""Qdisc options and CPU masks: what is encoded is what is decoded, in the kernel's layout."""

import pytest
from pydantic import BaseModel

from testbed.devices.qdisc import Qdisc
from testbed.netlink import message, qdisc
from testbed.netlink.sysfs import format_mask, parse_mask


class Holder(BaseModel):
    qdisc: Qdisc


def options(stated):
    model = Holder(qdisc=stated).qdisc
    return model.kind, model.options()


def through_the_wire(stated):
    kind, asked = options(stated)
    request = qdisc.set_root(3, kind, asked)
    return asked, qdisc.decode_root(request.body)


@pytest.mark.parametrize(
    "stated",
    [
        {"kind": "netem", "delay": "10ms", "jitter": "1ms", "loss": "0.5%", "rate": "1gbit", "limit": 5000},
        {"kind": "netem", "rate": "100gbit"},
        {"kind": "fq", "limit": 20000, "flow_limit": 200, "maxrate": "1gbit"},
        {"kind": "fq_codel", "target": "5ms", "interval": "100ms", "ecn": True, "limit": 1024},
        "noqueue",
    ],
)
def test_options_survive_the_wire(stated):
    asked, held = through_the_wire(stated)
    assert held.ifindex == 3
    assert {name: held.options[name] for name in asked} == asked


def test_units_are_those_of_tc():
    assert options({"kind": "tbf", "rate": "8mbit", "burst": "32kb", "limit": "1mb"}) == (
        "tbf",
        {"rate": 1_000_000, "burst": 32 << 10, "limit": 1 << 20},
    )
    assert options({"kind": "fq_codel", "target": "5ms"})[1] == {"target": 5000}
    assert options({"kind": "netem", "delay": "1.5ms", "loss": "100%"})[1] == {
        "delay": 1_500_000,
        "loss": 2**32 - 1,
    }


def test_a_rate_above_32_bits_has_its_own_attribute():
    request = qdisc.set_root(3, "tbf", {"rate": 2**33, "burst": 1 << 20, "limit": 1 << 20})
    found = dict(message.attributes(request.body, 20))
    parts = dict(message.attributes(found[qdisc.TCA_OPTIONS]))
    assert parts[qdisc.TCA_TBF_RATE64] == (2**33).to_bytes(8, "little")
    assert parts[qdisc.TCA_TBF_BURST] == (1 << 20).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("cpus", "text"),
    [([], "00000000"), ([0, 1], "00000003"), ([0, 32], "00000001,00000001"), ([63], "80000000,00000000")],
)
def test_masks_are_words_of_32_bits(cpus, text):
    assert format_mask(cpus) == text
    assert parse_mask(text) == set(cpus)
