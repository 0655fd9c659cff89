"""Pydantic field types for quantities, parsed by testbed.units, with their JSON schema."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from testbed.units import (
    RATE,
    SHARE,
    SIZE,
    TIME,
    parse_bytes,
    parse_microseconds,
    parse_nanoseconds,
    parse_rate,
    parse_seconds,
    parse_share,
)


def _written(pattern: str, description: str) -> Any:
    """For editors: a number, or text with a unit."""
    text = {"type": "string", "pattern": pattern}
    return WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, text], "description": description})


_BYTES_TEXT = _written(r"^[0-9.]+ ?([kKmMgGtT](i?[bB])?|[bB])?$", SIZE)
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=0), _BYTES_TEXT]
Bytes32 = Annotated[int, BeforeValidator(parse_bytes), Field(ge=0, le=2**32 - 1), _BYTES_TEXT]
BitRate = Annotated[
    int,
    BeforeValidator(parse_rate),
    Field(ge=0),
    _written(r"^[0-9.]+ ?[kKmMgGtT]?([bB][iI][tT])?$", RATE),
]
_TIME_TEXT = r"^[0-9.]+ ?(ns|us|ms|s|m|min|h)?$"
Seconds = Annotated[float, BeforeValidator(parse_seconds), _written(_TIME_TEXT, f"{TIME}; a number: seconds")]
Nanoseconds = Annotated[
    int, BeforeValidator(parse_nanoseconds), _written(_TIME_TEXT, "a time with its unit such as 10ms")
]
Microseconds = Annotated[
    int, BeforeValidator(parse_microseconds), _written(_TIME_TEXT, f"{TIME}; a number: microseconds")
]
CoreShare = Annotated[float, BeforeValidator(parse_share), _written(r"^[0-9.]+ ?%?$", SHARE)]  # of many cores
Share = Annotated[CoreShare, Field(le=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
