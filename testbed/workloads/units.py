"""Sizes and rates as iperf3 and netperf users write them: `500K`, `10G`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_bytes(value: object) -> int:
    """Bytes from `512000` or `500K`: suffixes are powers of 1024, as iperf3's -l and -w take them."""
    return _parse(value, 1024, "a size such as 131072, 128K or 1M")


def parse_rate(value: object) -> int:
    """Bits per second from `1e9`-like numbers or `10G`: powers of 1000, as iperf3's -b takes them."""
    return _parse(value, 1000, "a rate in bits per second such as 500M or 10G")


def _parse(value: object, base: int, expected: str) -> int:
    match = None if isinstance(value, bool) else _NUMBER.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"expected {expected}, got {value!r}")
    number, suffix = match.groups()
    return round(float(number) * float(base) ** _POWERS[suffix.upper()])


Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=0)]
BitRate = Annotated[int, BeforeValidator(parse_rate), Field(ge=0)]
Port = Annotated[int, Field(ge=1, le=65535)]
