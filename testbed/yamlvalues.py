"""Parse YAML text to plain values with their lines, in bounded time and memory.

The parser's events are read, not PyYAML's graph of nodes: there an alias is one
node, and 287 bytes of aliases of aliases become ten million values when somebody
walks them. Here every value that an alias or a merge (`<<`) stands for is counted.

Of YAML 1.1: mappings whose keys are words, as written (the key `on` is no boolean);
lists; text, integers of 64 bits, finite numbers, true and false, null. Neither
base-60 numbers, because a MAC address is text, nor dates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import yaml

from testbed.errors import InputError

Key = tuple[str | int, ...]

MAX_BYTES = 4 << 20
MAX_VALUES = 200_000  # a topology of 2,000 nodes has some 30,000
MAX_DEPTH = 50
MAX_KEY = 255
MAX_TEXT = 1 << 16
INTEGERS = range(-(2**63), 2**64)

_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_BOOLEANS = {**dict.fromkeys(("yes", "true", "on"), True), **dict.fromkeys(("no", "false", "off"), False)}
# What YAML allows in its text (c-printable), and what a value may hold: an escape such as "\0" is
# for no name, path or argument.
_NOT_YAML = re.compile(r"[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Values(NamedTuple):
    """A value, the line (from 1) of every key and item in it, and each word that is no text, as written."""

    value: Any
    lines: dict[Key, int]
    written: dict[Key, str]


def read_values(text: str, source: str, *, numbered: bool = True) -> Values:
    """The value that `text` holds, with the place of everything in it.

    InputError, `source:line: ...`, for what is not YAML or goes beyond the limits above; `source: ...`
    where it is not `numbered`, as the value of an option.
    """
    if bad := _NOT_YAML.search(text.removeprefix("\ufeff")):
        where = f"{source}:{text.count(chr(10), 0, bad.start()) + 1}" if numbered else source
        raise InputError(f"{where}: not YAML: the character U+{ord(bad[0]):04X}")
    reading = _Reading(source, numbered)
    try:
        reading.list_events(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{source}:{mark.line + 1}" if mark and numbered else source
        raise InputError(f"{where}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{source}: not YAML: {error}") from None
    value = reading.value(0, ()) if reading.events else None
    return Values(value, reading.lines, reading.written)


# libyaml reads a topology of a thousand nodes in a tenth of the time; not every PyYAML has it.
if TYPE_CHECKING or not yaml.__with_libyaml__:  # noqa: SIM108 (mypy takes no conditional base)
    _Base = yaml.SafeLoader
else:
    _Base = yaml.CSafeLoader


class _Loader(_Base):
    """The parser, with the resolvers of plain words that are meant here."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag in (f"{_TAG}bool", f"{_TAG}null")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(rf"^(?:{_INTEGER.pattern})$"), list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", re.compile(rf"^(?:{_FLOAT.pattern})$"), list("-+0123456789."))


class _Reading:
    """The events of one document, and the values that are made of them.

    A value is known by the place of its first event; `_after` is where the next one begins.
    """

    def __init__(self, source: str, numbered: bool) -> None:
        self.events: list[Any] = []
        self.lines: dict[Key, int] = {}
        self.written: dict[Key, str] = {}
        self._source, self._numbered = source, numbered
        self._after: list[int] = []
        self._meant: dict[int, int] = {}  # an alias -> what it stands for, always whole and before it
        self._made = 0

    def list_events(self, text: str) -> None:
        """Read the document's events. What it names is there, and nothing is inside itself."""
        loader = _Loader(text)
        try:
            self._list(loader)
        finally:
            loader.dispose()

    def _list(self, loader: Any) -> None:
        anchors: dict[str, int] = {}
        unfinished: list[int] = []
        documents = 0
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(event, "a second document begins here; a file holds one")
            if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                continue
            at = len(self.events)
            self.events.append(event)
            self._after.append(at + 1)
            if at >= 2 * MAX_VALUES:
                self._refuse(event, f"more than {MAX_VALUES:,} values")
            if isinstance(event, yaml.CollectionEndEvent):
                self._after[unfinished.pop()] = at + 1
                continue
            if isinstance(event, yaml.AliasEvent):
                self._meant[at] = self._target(event, anchors, unfinished)
            elif event.anchor is not None:
                anchors[event.anchor] = at
            if isinstance(event, yaml.CollectionStartEvent):
                unfinished.append(at)
                if len(unfinished) > MAX_DEPTH:
                    self._refuse(event, f"nested more than {MAX_DEPTH} deep")

    def _target(self, alias: Any, anchors: dict[str, int], unfinished: list[int]) -> int:
        target = anchors.get(alias.anchor)
        if target is None:
            self._refuse(alias, f"the alias *{alias.anchor} stands for nothing: no &{alias.anchor} before it")
        if target in unfinished:
            self._refuse(alias, "an alias (*) refers to what it stands in")
        return target

    def value(self, at: int, key: Key) -> Any:
        """The value that begins at event `at`; `key` is its place in the whole."""
        self._count(at)
        at = self._meant.get(at, at)
        event = self.events[at]
        self.lines.setdefault(key, _line(event))
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
            if not isinstance(value, str):
                self.written[key] = str(event.value)
            return value
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _TAG + kind):
            self._refuse(event, f"the tag {_tag_name(event.tag)} is not known here")
        if len(key) >= MAX_DEPTH:
            self._refuse(event, f"nested more than {MAX_DEPTH} deep")
        if kind == "map":
            return self._mapping(at, key)
        return [self.value(item, (*key, index)) for index, item in enumerate(self._items(at))]

    def _mapping(self, at: int, key: Key) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merges: list[int] = []
        for name_at, value_at in self._pairs(at):
            name = self._name(name_at)
            if self._is_merge(name_at):
                merges.append(value_at)
            if name in own or len(merges) > 1:
                self._refuse(self.events[name_at], f"the key '{name}' stands twice")
            if not self._is_merge(name_at):
                own[name] = self._at_key(name_at, value_at, (*key, name))
        merged: dict[str, Any] = {}
        for source in merges:
            for name_at, value_at in self._merged(source):
                name = self._name(name_at)
                if name not in own and name not in merged:
                    merged[name] = self._at_key(name_at, value_at, (*key, name))
        return {**merged, **own}

    def _at_key(self, name_at: int, value_at: int, key: Key) -> Any:
        self.lines[key] = _line(self.events[name_at])
        return self.value(value_at, key)

    def _merged(self, at: int) -> Iterator[tuple[int, int]]:
        """The pairs that `<<` brings in, the strongest first: a mapping's own, then those merged into it."""
        self._count(at)
        at = self._meant.get(at, at)
        event = self.events[at]
        if isinstance(event, yaml.SequenceStartEvent):
            for item in self._items(at):
                if not isinstance(self.events[self._meant.get(item, item)], yaml.MappingStartEvent):
                    self._refuse(self.events[item], "<< merges mappings, and this is none")
                yield from self._merged(item)
            return
        if not isinstance(event, yaml.MappingStartEvent):
            self._refuse(event, "<< merges a mapping or a list of them, and this is neither")
        deeper = []
        for name_at, value_at in self._pairs(at):
            self._count(name_at)
            if self._is_merge(name_at):
                deeper.append(value_at)
            else:
                yield name_at, value_at
        for source in deeper:
            yield from self._merged(source)

    def _items(self, at: int) -> Iterator[int]:
        """Where the items of the list, or the keys and values of the mapping, at event `at` begin."""
        item = at + 1
        while not isinstance(self.events[item], yaml.CollectionEndEvent):
            yield item
            item = self._after[item]

    def _pairs(self, at: int) -> Iterator[tuple[int, int]]:
        items = self._items(at)
        return zip(items, items, strict=True)

    def _name(self, at: int) -> str:
        event = self.events[self._meant.get(at, at)]
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(self.events[at], "a key must be a word")
        if len(event.value) > MAX_KEY:
            self._refuse(event, f"a key of {len(event.value):,} characters; at most {MAX_KEY} are taken")
        self._check_text(event)
        return str(event.value)

    def _is_merge(self, at: int) -> bool:
        event = self.events[at]
        return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and bool(event.implicit[0])

    def _scalar(self, event: Any) -> Any:
        text = event.value
        tag = event.tag
        if tag in (None, "!"):
            tag = _RESOLVER.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
        match tag.removeprefix(_TAG):
            case "str":
                self._check_text(event)
                return text
            case "null":
                return None
            case "bool" if text.lower() in _BOOLEANS:
                return _BOOLEANS[text.lower()]
            case "int" if _INTEGER.fullmatch(text):
                return self._integer(event)
            case "float" if _FLOAT.fullmatch(text):
                number = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
                if not math.isfinite(number):
                    self._refuse(event, f"{shortened(text)} is not a finite number")
                return number
            case "bool" | "int" | "float":
                self._refuse(event, f"{shortened(text)!r} is not what its tag {_tag_name(tag)} says")
            case _:
                self._refuse(event, f"the tag {_tag_name(tag)} is not known here")

    def _integer(self, event: Any) -> int:
        digits = event.value.replace("_", "")
        if len(digits) <= 20 + len("-"):
            number = int(digits, 16 if "x" in digits else 10)
            if number in INTEGERS:
                return number
        self._refuse(event, f"{shortened(event.value)} is beyond 64 bits")

    def _check_text(self, event: Any) -> None:
        if len(event.value) > MAX_TEXT:
            self._refuse(event, f"a text of {len(event.value):,} characters; at most {MAX_TEXT:,} are taken")
        if bad := _CONTROL.search(event.value):
            self._refuse(event, f"the control character U+{ord(bad[0]):04X} in a text")

    def _count(self, at: int) -> None:
        self._made += 1
        if self._made > MAX_VALUES:
            self._refuse(self.events[at], f"more than {MAX_VALUES:,} values, what aliases repeat included")

    def _refuse(self, event: Any, message: str) -> NoReturn:
        where = f"{self._source}:{_line(event)}" if self._numbered else self._source
        raise InputError(f"{where}: {message}")


_RESOLVER = _Loader("")  # it keeps nothing: one serves every file


def shortened(text: str, most: int = 60) -> str:
    """`text`, cut in the middle to `most` characters, for an error message."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _tag_name(tag: str) -> str:
    return "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag
