"""YAML files that know on which line each value stands, checked against a pydantic model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from testbed.errors import InputError

Model = TypeVar("Model", bound=BaseModel)
Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A parsed file: plain values, and the line (from 1) of every key and list item.

    `origins`: what a value came from that does not stand in the file, such as an option.
    """

    source: str
    value: Any
    lines: dict[Key, int]
    origins: dict[Key, str] = field(default_factory=dict)

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
        return InputError(f"{where or f'{self.source}:{self.line(key)}'}: {message}")


def load(path: Path) -> Document:
    """Read `path`. InputError, with the line where known, for what is not YAML or not readable."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"{path}: cannot read: {reason}") from None
    return parse(text, str(path))


def parse(text: str, source: str) -> Document:
    """Parse YAML text that came from `source` (a name for the errors)."""
    lines: dict[Key, int] = {}
    try:
        root = yaml.compose(text, Loader=_Loader)
        value = None if root is None else _construct(root, (), lines, source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise InputError(f"{where}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{source}: not YAML: {error}") from None
    return Document(source, value, lines)


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
        raise InputError(f"{place}: {_words(first, model)}") from None


def _first_mistake(
    document: Document, model: type[BaseModel], key: Key, error: ValidationError
) -> InputError:
    """The mistake that stands first in the file, in words for its author."""
    mistakes = error.errors(include_url=False)
    # pydantic's location can hold names of union members: keep only what the file holds.
    placed = [(_in_file(document, key + _place(m)), m) for m in mistakes]
    place, mistake = min(placed, key=lambda pair: document.line(pair[0]))
    name = ".".join(str(part) for part in place) or "file"
    words = _words(mistake, model)
    return document.error(place, words if document.origin(place) and place else f"{name}: {words}")


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


def _words(mistake: Any, model: type[BaseModel]) -> str:
    kind, loc = mistake["type"], mistake["loc"]
    if kind == "extra_forbidden":
        return f"unknown key{did_you_mean(str(loc[-1]), _known_keys(model))}"
    if kind == "missing":
        return f"the key '{loc[-1]}' is missing"
    message = str(mistake["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in ("value_error", "placed"):
        return message
    message = message[0].lower() + message[1:]
    return f"{message}, got {mistake['input']!r}"


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


def _construct(
    node: yaml.Node, key: Key, lines: dict[Key, int], source: str, inside: tuple[yaml.Node, ...] = ()
) -> Any:
    lines.setdefault(key, node.start_mark.line + 1)
    if any(node is outer for outer in inside):
        raise InputError(f"{source}:{lines[key]}: an alias (*) refers to what it stands in")
    inside = (*inside, node)
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise InputError(f"{source}:{key_node.start_mark.line + 1}: a key must be a word")
            name = str(key_node.value)  # as written: the key `on` is a word here, not true
            if name in result:
                raise InputError(f"{source}:{key_node.start_mark.line + 1}: the key '{name}' stands twice")
            lines[(*key, name)] = key_node.start_mark.line + 1
            result[name] = _construct(value_node, (*key, name), lines, source, inside)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [
            _construct(item, (*key, index), lines, source, inside) for index, item in enumerate(node.value)
        ]
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    """A scalar's value. Keys and values alike; a MAC address is text, never a base-60 number."""
    try:
        return _CONSTRUCTOR.construct_object(node, deep=True)
    finally:
        _CONSTRUCTOR.constructed_objects.clear()


# libyaml reads a topology of a thousand nodes in a tenth of the time; not every PyYAML has it.
if TYPE_CHECKING or not yaml.__with_libyaml__:  # noqa: SIM108 (mypy takes no conditional base)
    _Base = yaml.SafeLoader
else:
    _Base = yaml.CSafeLoader


class _Loader(_Base):
    """YAML 1.1 without its two traps here: base-60 integers (MAC addresses) and dates."""


_INTEGER = re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)$")
_TRAPS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag not in _TRAPS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))

# What turns a scalar into a value keeps nothing: one serves every file.
_CONSTRUCTOR = _Loader("")
