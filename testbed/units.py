"""Parse sizes, rates, times and shares, by the same rules in files and options.

Bytes are counted in powers of 1024, as iperf3 and tc do (`128K`); everything
else in powers of 1000 (`10G` bits per second, `5K` packets). A time has its unit
(`250ms`); a bare number is in seconds. docs/units.md is the reference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_NUMBER = re.compile(r"(\d[\d_]{0,18}(?:\.\d{1,18})?(?:[eE][-+]?\d{1,3})?)\s*([a-zA-Z%]*)", re.ASCII)
_LARGEST = 2**63 - 1
_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_BYTES = {
    prefix + unit: 1024.0**power
    for prefix, power in _PREFIXES.items()
    for unit in ("", "b", "ib")
    if prefix or unit != "ib"
}
_COUNTS = {prefix: 1000.0**power for prefix, power in _PREFIXES.items()}
_RATES = {prefix + unit: scale for prefix, scale in _COUNTS.items() for unit in ("", "bit")}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

SIZE = "a size in bytes such as 131072, 128K or 1M"
RATE = "a rate in bits per second such as 500M, 10G or 1gbit"
TIME = "a time such as 10s, 250ms, 5m or 1.5h"
SHARE = "a share such as 1% or 0.01"


def parse_bytes(value: object) -> int:
    """Bytes: `131072`, `128K`, `32kb`, `1MiB`; every suffix is a power of 1024. ValueError otherwise."""
    return _whole(_scaled(value, _BYTES, SIZE), value, SIZE)


def parse_rate(value: object) -> int:
    """Bits per second: `1000000`, `10G`, `1gbit`; every suffix is a power of 1000. ValueError otherwise."""
    return _whole(_scaled(value, _RATES, RATE), value, RATE)


def parse_seconds(value: object) -> float:
    """Seconds: `10`, `10s`, `250ms`, `5m` (minutes), `1.5h`. ValueError otherwise."""
    return _scaled(value, {"": 1.0, **_SECONDS}, TIME, exact_case=True)


def parse_nanoseconds(value: object) -> int:
    """Whole nanoseconds of a time with its unit: tc takes a bare number for microseconds, we for seconds."""
    expected = "a time with its unit such as 10ms"
    if str(value) != "0":
        value = _with_unit(value, expected)
    return round(_scaled(value, {"": 1.0, **_SECONDS}, expected, exact_case=True) * 1e9)


def parse_microseconds(value: object) -> int:
    """Microseconds: a bare number, or a time with its unit. For options that are in microseconds."""
    expected = "microseconds, or a time with its unit such as 1ms"
    return round(_scaled(value, {"": 1e-6, **_SECONDS}, expected, exact_case=True) * 1e6)


def parse_share(value: object) -> float:
    """A share of one: `1%` is 0.01, and so is 0.01. ValueError otherwise."""
    return _scaled(value, {"": 1.0, "%": 0.01}, SHARE)


def parse_count(value: object) -> float:
    """A number of things: `10`, `5K` is 5000, `1.5M`. ValueError otherwise."""
    return _scaled(value, _COUNTS, "a number such as 10, 5K or 1.5M")


def _scaled(value: object, units: Mapping[str, float], expected: str, *, exact_case: bool = False) -> float:
    match = None if isinstance(value, bool) else _NUMBER.fullmatch(str(value).strip())
    unit = match[2] if match and exact_case else match[2].lower() if match else ""
    if match is None or unit not in units:
        raise ValueError(f"expected {expected}, got {value!r}")
    number = float(match[1].replace("_", "")) * units[unit]
    if not math.isfinite(number) or number > _LARGEST:
        raise ValueError(f"{value} is too large: expected {expected}")
    return number


def _whole(number: float, value: object, expected: str) -> int:
    if number != int(number):
        raise ValueError(f"expected {expected}, a whole number of them, got {value!r}")
    return int(number)


def _with_unit(value: object, expected: str) -> object:
    if isinstance(value, bool) or not str(value).strip()[-1:].isalpha():
        raise ValueError(f"expected {expected}, got {value!r}")
    return value
