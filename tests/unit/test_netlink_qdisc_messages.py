"""Qdisc options and CPU masks: what is encoded is what is decoded, in the kernel's layout."""

import pytest
from pydantic import BaseModel

from testbed.devices.qdisc import Qdisc
from testbed.netlink import qdisc_messages
from testbed.netlink.remembered import MESSAGE_HEADER
from testbed.netlink.sysfs import format_mask, parse_mask


class Holder(BaseModel):
    qdisc: Qdisc


def options(stated):
    model = Holder(qdisc=stated).qdisc
    return model.kind, model.options()


def through_the_wire(stated):
    kind, requested = options(stated)
    return requested, qdisc_messages.decode_root(answer(qdisc_messages.set_root(3, kind, requested)))


def answer(request):
    """The same message as the kernel would send it."""
    size = MESSAGE_HEADER.size + len(request.body)
    return MESSAGE_HEADER.pack(size, request.type, 0, 1, 0) + request.body


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
    requested, actual = through_the_wire(stated)
    assert actual.ifindex == 3
    assert {name: actual.options[name] for name in requested} == requested


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
    """TCA_TBF_RATE64 is number 4, TCA_TBF_BURST number 6."""
    body = qdisc_messages.set_root(3, "tbf", {"rate": 2**33, "burst": 1 << 20, "limit": 1 << 20}).body
    assert b"\x0c\0\x04\0" + (2**33).to_bytes(8, "little") in body
    assert b"\x08\0\x06\0" + (1 << 20).to_bytes(4, "little") in body


@pytest.mark.parametrize(
    ("cpus", "text"),
    [([], "00000000"), ([0, 1], "00000003"), ([0, 32], "00000001,00000001"), ([63], "80000000,00000000")],
)
def test_masks_are_words_of_32_bits(cpus, text):
    assert format_mask(cpus) == text
    assert parse_mask(text) == set(cpus)
