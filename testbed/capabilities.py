"""Capabilities of a kernel and its machine as named values, and requirements on them.

Pure: `testbed.probing` finds the values. Names are the kernel's and the tools'
own, with a dot before an attribute: `veth.max_mtu` (bytes), `vxlan.tso_max_size`
(bytes), `bpf` (yes or no), `iperf3` (its version), `kernel` (its release).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.units import parse_bytes
from testbed.versions import version_key

Value = bool | int | str

Found = tuple[dict[str, Value], str]
"""What a finder gives: values of a name and its attributes; where it is missing, why and how to get it."""


@dataclass(frozen=True)
class Capabilities:
    """Capability -> value; `why`: for each missing one the reason and how to get it."""

    values: dict[str, Value] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether `name` was found: a tool that is not there, like a refused device, is False."""
        return self.values.get(name, False) is not False

    def unmet(self, requires: Mapping[str, Value]) -> list[str]:
        """The requirements that do not hold here, each in words and with its reason where known."""
        return unmet(requires, self.values, self.why)


def unmet(
    requires: Mapping[str, Value], found: Mapping[str, Value], why: Mapping[str, str] | None = None
) -> list[str]:
    """The requirements that `found` does not meet, as text; empty when all hold.

    A requirement is capability -> comparison: `">= 524280"`, `"< 7.3"` (numbers
    and versions compare part by part), `"== cubic"`, or `true` for there at all.
    ValueError for a comparison that cannot be read (see `parse_requirement`).
    """
    reasons = []
    for name, required in requires.items():
        requirement = parse_requirement(required)
        value = found.get(name, False)
        if not requirement.holds(value):
            because = (why or {}).get(name) or (why or {}).get(name.partition(".")[0])
            reasons.append(_in_words(name, requirement, value) + (f": {because}" if because else ""))
    return reasons


@dataclass(frozen=True)
class Requirement:
    """`comparison` is one of COMPARISONS; `value` is a number, a version, a word, or there (True) or not."""

    comparison: str
    value: Value

    def holds(self, found: Value) -> bool:
        """Whether the value that was found satisfies it. What is not there satisfies only `false`."""
        if isinstance(self.value, bool):
            return (found is not False) == self.value
        if isinstance(found, bool):
            return False
        return COMPARISONS[self.comparison](*_comparable(found, self.value))


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_REQUIREMENT = re.compile(rf"\s*({'|'.join(COMPARISONS)})?\s*([^\s<>=!]\S*)\s*")
_SIZE = re.compile(r"\d+[KMGT]?")
_WORDS: dict[str, bool] = {"true": True, "yes": True, "false": False, "no": False}


def parse_requirement(required: Value) -> Requirement:
    """Read `">= 524280"` (or `">= 512K"`), `"true"`, a bare value (equal to it), a bool. ValueError else."""
    if isinstance(required, bool | int):
        return Requirement("==", required)
    match = _REQUIREMENT.fullmatch(required)
    if not match:
        raise ValueError(f"expected a comparison such as '>= 524280', '< 7.3' or 'true', got '{required}'")
    comparison, text = match[1] or "==", match[2]
    there = _WORDS.get(text.lower())
    if there is None:
        return Requirement(comparison, parse_bytes(text) if _SIZE.fullmatch(text) else text)
    if comparison not in ("==", "!="):
        raise ValueError(f"'{text}' is either there or not, it cannot be compared with '{comparison}'")
    return Requirement("==", there == (comparison == "=="))


def _comparable(found: Value, required: Value) -> tuple[Any, Any]:
    """Both sides as numbers, as versions cut or padded to the required length, or as text."""
    if isinstance(found, int) and isinstance(required, int):
        return found, required
    have, want = version_key(str(found)), version_key(str(required))
    if not have or not want:
        return str(found), str(required)
    # ">= 7.3" and "== 7.3" are meant to hold for 7.3.4.
    return (have + (0,) * len(want))[: len(want)], want


def _in_words(name: str, requirement: Requirement, found: Value) -> str:
    if requirement.value is False:
        return f"{name} must not be there, but is"
    if found is False:
        return f"{name} is missing"
    return f"{name} is {found}, needed {requirement.comparison} {requirement.value}"
