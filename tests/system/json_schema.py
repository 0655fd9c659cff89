"""Where a JSON value is not what a schema says, as far as the schemas go that `testbed schema` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def differences(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Each place with what is wrong there: unknown keys, missing ones, other types and values."""
    return list(_differences(value, schema, schema.get("$defs", {}), ""))


def _differences(value: Any, schema: Any, shared: Mapping[str, Any], where: str) -> Iterator[str]:
    if "$ref" in schema:
        yield from _differences(value, shared[schema["$ref"].rpartition("/")[2]], shared, where)
    if "anyOf" in schema:
        tries = [list(_differences(value, one, shared, where)) for one in schema["anyOf"]]
        yield from min(tries, key=len)
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not isinstance(value, _TYPES[schema["type"]]):
        yield f"{where}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        yield from (f"{where}.{key}: missing" for key in schema.get("required", ()) if key not in value)
        named, others = (
            schema.get("properties", {}),
            schema.get("additionalProperties", "properties" not in schema),
        )
        for key, held in value.items():
            if key in named or isinstance(others, dict):
                yield from _differences(held, named.get(key, others), shared, f"{where}.{key}")
            elif not others:
                yield f"{where}.{key}: unknown"
    elif isinstance(value, list):
        for number, held in enumerate(value):
            yield from _differences(held, schema.get("items", {}), shared, f"{where}[{number}]")
