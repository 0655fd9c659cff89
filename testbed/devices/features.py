"""ethtool's names of offloads, and the kernel features that each covers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Protocol

# off_flag_def in ethtool's common.c: its short name, the name under which `ethtool -k`
# prints it, and a pattern of the kernel's names, of which later kernels have more.
_OFFLOADS = (
    ("rx", "rx-checksumming", "rx-checksum"),
    ("tx", "tx-checksumming", "tx-checksum-*"),
    ("sg", "scatter-gather", "tx-scatter-gather*"),
    ("tso", "tcp-segmentation-offload", "tx-tcp*-segmentation"),
    ("ufo", "udp-fragmentation-offload", "tx-udp-fragmentation"),
    ("gso", "generic-segmentation-offload", "tx-generic-segmentation"),
    ("gro", "generic-receive-offload", "rx-gro"),
    ("lro", "large-receive-offload", "rx-lro"),
    ("rxvlan", "rx-vlan-offload", "rx-vlan-hw-parse"),
    ("txvlan", "tx-vlan-offload", "tx-vlan-hw-insert"),
    ("ntuple", "ntuple-filters", "rx-ntuple-filter"),
    ("rxhash", "receive-hashing", "rx-hashing"),
)
PATTERNS: Mapping[str, str] = {name: pattern for *names, pattern in _OFFLOADS for name in names}


class State(Protocol):
    """The state of one feature of one device."""

    @property
    def active(self) -> bool: ...

    @property
    def fixed(self) -> bool:
        """The device cannot change it."""
        ...


def covers(name: str, feature: str) -> bool:
    """Whether `name`, ethtool's or the kernel's own, stands for the kernel's `feature`."""
    return fnmatchcase(feature, PATTERNS.get(name, name))


def replaces(new: str, old: str) -> bool:
    """Whether a later request for `new` says all that an earlier one for `old` did."""
    return covers(new, old) or (new in PATTERNS and PATTERNS[new] == PATTERNS.get(old))


def members(name: str, requested: Iterable[str], actual: Iterable[str]) -> list[str]:
    """The features in `actual` that `name` decides about, where `requested` are all names that are requested.

    As in ethtool, a feature that is requested by the kernel's own name is not
    decided about by another.
    """
    by_own_name = {other for other in requested if other not in PATTERNS} - {name}
    return [feature for feature in actual if covers(name, feature) and feature not in by_own_name]


def to_set(requested: Mapping[str, bool], actual: Mapping[str, State]) -> dict[str, bool]:
    """`requested` under the kernel's names: of an offload's features those that the device can change.

    An offload of which the device can change nothing stands for all it has, and
    what it does not have is left out: the difference is seen when it is read back.
    """
    result: dict[str, bool] = {}
    for name, on in requested.items():
        named = members(name, requested, actual)
        changeable = [feature for feature in named if not actual[feature].fixed]
        result.update(dict.fromkeys(changeable or named, on))
    return result


def wrong(name: str, requested: Mapping[str, bool], actual: Mapping[str, State]) -> list[str] | None:
    """The features that are not as `requested` by `name`; None when all are.

    Off is off only when nothing of an offload is active, fixed or not; it is on
    when all that the device can change is. Empty: the device has nothing of it.
    """
    on = requested[name]
    named = members(name, requested, actual)
    if not named:
        shadowed = any(covers(name, feature) for feature in actual)
        return None if shadowed else []
    changeable = [feature for feature in named if not actual[feature].fixed]
    decisive = (changeable or named) if on else named
    return [feature for feature in decisive if actual[feature].active != on] or None
