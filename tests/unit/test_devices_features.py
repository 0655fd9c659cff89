"""Offloads as ethtool names them: patterns of the kernel's features."""

from typing import NamedTuple

import pytest

from testbed.devices.features import replaces, to_set, wrong


class State(NamedTuple):
    active: bool
    fixed: bool = False


ON, OFF, FIXED_OFF, FIXED_ON = State(True), State(False), State(False, True), State(True, True)


def test_an_offload_covers_what_no_list_of_ours_has():
    actual = {"tx-tcp-segmentation": ON, "tx-tcp-future-segmentation": ON, "tx-gso-robust": ON}
    assert to_set({"tso": False}, actual) == {
        "tx-tcp-segmentation": False,
        "tx-tcp-future-segmentation": False,
    }


def test_read_back_sees_a_feature_that_stayed_on():
    actual = {"tx-tcp-segmentation": OFF, "tx-tcp-accecn-segmentation": ON}
    assert wrong("tso", {"tso": False}, actual) == ["tx-tcp-accecn-segmentation"]


@pytest.mark.parametrize(
    ("on", "actual", "expected"),
    [
        (True, {"rx-gro": ON, "rx-gro-list": OFF}, None),  # rx-gro-list is no part of gro
        (True, {"rx-gro": FIXED_OFF}, ["rx-gro"]),
        (False, {"rx-gro": FIXED_ON}, ["rx-gro"]),
        (False, {"rx-gro": FIXED_OFF}, None),
        (True, {"highdma": ON}, []),
    ],
)
def test_fixed_features_and_those_of_other_names(on, actual, expected):
    assert wrong("gro", {"gro": on}, actual) == expected


def test_on_needs_only_what_the_device_can_change():
    actual = {"tx-checksum-ipv4": FIXED_OFF, "tx-checksum-ip-generic": ON}
    assert to_set({"tx": True}, actual) == {"tx-checksum-ip-generic": True}
    assert wrong("tx", {"tx": True}, actual) is None


def test_the_kernels_own_name_is_an_exception():
    requested = {"tso": False, "tx-tcp6-segmentation": True}
    actual = {"tx-tcp-segmentation": OFF, "tx-tcp6-segmentation": ON}
    assert to_set(requested, actual) == {"tx-tcp-segmentation": False, "tx-tcp6-segmentation": True}
    assert [wrong(name, requested, actual) for name in requested] == [None, None]


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("tso", "tx-tcp6-segmentation", True),
        ("tcp-segmentation-offload", "tso", True),
        ("tx-tcp6-segmentation", "tso", False),
        ("gro", "rx-gro-list", False),
    ],
)
def test_a_later_request_replaces_what_it_says_all_of(new, old, expected):
    assert replaces(new, old) is expected
