"""Load YAML files with the line of each value, and validate them against a pydantic model."""

from __future__ import annotations

import difflib
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from testbed.errors import InputError, printable
from testbed.yamlvalues import MAX_BYTES, read_values, shortened
from testbed.yamlvalues import Key as Key

Model = TypeVar("Model", bound=BaseModel)
_EXPONENT = re.compile(r"[0-9]+[eE][0-9]{1,2}")


@dataclass(frozen=True)
class Document:
    """A parsed file: plain values, and the line (from 1) of every key and list item.

    `origins`: what a value came from that does not stand in the file, such as an option.
    `written`: the words that YAML did not take for text, such as `on`, by their place.
    """

    source: str
    value: Any
    lines: dict[Key, int]
    origins: dict[Key, str] = field(default_factory=dict)
    written: dict[Key, str] = field(default_factory=dict)

    def line(self, key: Key) -> int:
        """The line of `key`, or of the nearest enclosing value that has one."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)

    def origin(self, key: Key) -> str | None:
        """Where the value at `key`, or one inside it, came from; None when from the file."""
        return next((origin for place, origin in self.origins.items() if place[: len(key)] == key), None)

    def error(self, key: Key, message: str) -> InputError:
        """An error at the place of `key`: `file:line: message`, or `option: message`."""
        where = self.origin(key) if key else None
        where = where or f"{self.source}:{self.line(key)}"
        return InputError(f"{where}: {shortened(printable(message), 1000)}")


def load(path: Path) -> Document:
    """Read `path`. InputError, with the line where known, for what is not YAML or not readable.

    A device file is not opened: opening one can do something.
    """
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise InputError(f"{path}: cannot read: not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: cannot read: larger than {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: cannot read: not UTF-8 text") from None
    return parse(text, str(path))


def parse(text: str, source: str) -> Document:
    """Parse YAML text that came from `source` (a name for the errors)."""
    value, lines, written = read_values(text, source)
    return Document(source, value, lines, written=written)


def parse_word(text: str, option: str) -> Any:
    """The value that `text` is in a file, where it came by an `option` instead."""
    return read_values(text, option, numbered=False)[0]


def validate(document: Document, model: type[Model], key: Key = ()) -> Model:
    """The document's value as `model`; InputError with file and line for the first mistake."""
    value = document.value
    for part in key:
        value = value[part]
    if not isinstance(value, dict):
        raise document.error(key, f"expected a mapping of keys to values, got {_kind(value)}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _first_mistake(document, model, key, error) from None


def validate_value(name: str, value: Mapping[str, Any], model: type[Model]) -> Model:
    """`value`, which stands in no single file (`name` says what it is), as `model`; InputError, one line."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in (name, *_place(first)))
        raise InputError(printable(f"{place}: {_words(first, model)}")) from None


def _first_mistake(
    document: Document, model: type[BaseModel], key: Key, error: ValidationError
) -> InputError:
    """The error for the first mistake in the file, worded for its author."""
    mistakes = error.errors(include_url=False)
    # pydantic's location can hold names of union members: keep only what the file holds.
    placed = [(_in_file(document, key + _place(m)), m) for m in mistakes]
    place, mistake = min(placed, key=lambda pair: document.line(pair[0]))
    name = ".".join(str(part) for part in place) or "file"
    text = _words(mistake, model, document.written.get(place))
    return document.error(place, text if document.origin(place) and place else f"{name}: {text}")


def _place(mistake: Any) -> Key:
    """Where a mistake is: pydantic's location, and below it the key that `mistake` named."""
    inner = mistake["ctx"]["key"] if mistake["type"] == "placed" else ()
    return (*mistake["loc"], *inner)


def _in_file(document: Document, key: Key) -> Key:
    kept: Key = ()
    for part in key:
        if (*kept, part) in document.lines or document.origin((*kept, part)):
            kept = (*kept, part)
    return kept


def _words(mistake: Any, model: type[BaseModel], written: str | None = None) -> str:
    """A mistake in words for its author. `written`: the word in the file that YAML took for no text."""
    kind, loc, value = mistake["type"], mistake["loc"], mistake["input"]
    if kind == "extra_forbidden":
        known = _keys_at(model, loc[:-1])
        there = f"; there are {', '.join(known)}" if known else ""
        return f"unknown key{did_you_mean(str(loc[-1]), known or _known_keys(model)) or there}"
    if kind == "missing":
        return f"the key '{loc[-1]}' is missing"
    message = str(mistake["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in ("value_error", "placed"):
        return message
    message = _EXPECTED.get(kind) or message[0].lower() + message[1:]
    if kind == "string_type" and (value is None or isinstance(value, bool | int | float)):
        return f"{message}; {_as_read(value, written)}"
    if kind == "int_parsing" and _EXPONENT.fullmatch(str(value)):
        return f"{message}, got {value!r}: write it out, {float(value):.0f}"
    return f"{message}, got {_shown(value)}"


_EXPECTED = {
    "string_type": "expected text",
    "bool_type": "expected on or off",
    "bool_parsing": "expected on or off",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping of keys to values",
    "model_type": "expected a mapping of keys to values",
    "model_attributes_type": "expected a mapping of keys to values",
}
"""Messages for pydantic's kinds of mistakes, worded for a file's author."""


def _as_read(value: Any, written: str | None) -> str:
    """`YAML reads on as true: quote it, 'on'`."""
    if written is None:
        return f"got {_yaml(value)}: quote the word"
    number = "a number" if isinstance(value, int | float) else "nothing"
    taken = _yaml(value) if _yaml(value) != written else number
    return f"YAML reads {written} as {taken}: quote it, '{written}'"


def _yaml(value: Any) -> str:
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _shown(value: Any) -> str:
    """A value as its author would know it again: on one line, and not too long."""
    if isinstance(value, bool) or value is None:
        return _yaml(value)
    text = repr(value) if not isinstance(value, BaseModel) else f"'{value}'"
    return shortened(text)


def _keys_at(model: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """The keys that `model` knows at `place`; none where its schema does not say one thing."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    here = [schema]
    for part in (None, *place):
        if part is not None:
            here = [inner for body in here for inner in _below(body, part)]
        here = [definitions[body["$ref"].rpartition("/")[2]] if "$ref" in body else body for body in here]
        here = [inner for body in here for inner in body.get("anyOf", body.get("oneOf", [body]))]
        here = [definitions[body["$ref"].rpartition("/")[2]] if "$ref" in body else body for body in here]
    keyed = [body["properties"] for body in here if "properties" in body]
    return list(keyed[0]) if len(keyed) == 1 else []


def _below(schema: Mapping[str, Any], part: str | int) -> list[dict[str, Any]]:
    """What a schema says of its value at `part`."""
    found = schema.get("properties", {}).get(part)
    found = found or schema.get("items" if isinstance(part, int) else "additionalProperties")
    return [found] if isinstance(found, dict) else []


def _known_keys(model: type[BaseModel]) -> list[str]:
    """Every key that `model` or a model inside it knows (for a near-miss suggestion)."""
    schema = model.model_json_schema()
    bodies = [schema, *schema.get("$defs", {}).values()]
    return sorted({name for body in bodies for name in body.get("properties", {})})


def mistake(message: str, *key: str | int) -> PydanticCustomError:
    """An error for a validator of a whole model to raise about the value at `key` inside it."""
    return PydanticCustomError("placed", "{message}", {"message": message, "key": list(key)})


def did_you_mean(word: str, known: list[str]) -> str:
    """`, did you mean 'x'?`, or nothing when no known word is near."""
    near = difflib.get_close_matches(word, known, n=1)
    return f", did you mean '{near[0]}'?" if near else ""


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
