"""Directives that write reference pages from the code: commands from Typer, files from their models."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from enum import Enum
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, get_args, get_origin

from docutils import nodes
from docutils.parsers.rst.directives import unchanged
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec
from typer.main import get_command

from testbed.cli.schema import schema_of


class Generated(SphinxDirective):
    """A directive whose Markdown is made by `lines`."""

    optional_arguments = 1

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        # A section may not stand below a directive's own node; MyST's nested parse allows headings.
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


class Commands(Generated):
    """Every command with its arguments, options and text."""

    def lines(self) -> Iterator[str]:
        from testbed.cli import app

        yield from _commands("testbed", get_command(app))


def _commands(path: str, command: Any) -> Iterator[str]:
    for name, sub in getattr(command, "commands", {}).items():
        if getattr(sub, "commands", None):
            yield from _commands(f"{path} {name}", sub)
        else:
            yield from _command(f"{path} {name}", sub)


def _command(path: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    yield from (f"## {path}", "", "```text")
    yield " ".join([path, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    yield from ("```", "", inspect.cleandoc(command.help or ""), "")
    for one in arguments:
        yield from _definition(f"`{_name(one)}`", one)
    for one in options:
        flags = ", ".join(f"`{flag}`" for flag in [*one.opts, *one.secondary_opts])
        takes = "" if one.is_flag else f" `{_name(one)}`"
        yield from _definition(flags + takes, one)
    if command.epilog:
        yield from ("```text", inspect.cleandoc(command.epilog), "```", "")


def _name(one: Any) -> str:
    """What stands for a value on the command line: the code's metavar, or a word for its type."""
    if one.metavar:
        return str(one.metavar)
    kind = one.type_descriptor.annotation
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    if one.param_type_name == "option":
        return {int: "N", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")
    return str(one.name).upper()


def _usage(one: Any) -> str:
    return _name(one) if one.required else f"[{_name(one)}]"


def _definition(term: str, one: Any) -> Iterator[str]:
    default = one.default
    told = "" if default in (None, False, (), [], "", ...) or callable(default) else f" Default: `{default}`."
    yield from (term, f": {(one.help or '').strip()}{told}", "")


class Model(Generated):
    """The fields of a model and of all models below it: `MODULE:CLASS`."""

    required_arguments = 1
    optional_arguments = 0
    option_spec: ClassVar[OptionSpec] = {"without": unchanged}  # models that another page shows, by a pattern

    def lines(self) -> Iterator[str]:
        module, _, name = self.arguments[0].partition(":")
        schema = schema_of(getattr(import_module(module), name), written=True)
        without = self.options.get("without", "")
        yield from _model(schema)
        for title, below in sorted(schema.get("$defs", {}).items()):
            if below.get("properties") and not fnmatchcase(title, without):
                yield from (f"## {title}", "")
                yield from _model(below)


def _model(schema: dict[str, Any]) -> Iterator[str]:
    if text := schema.get("description"):
        yield from (inspect.cleandoc(text), "")
    required = set(schema.get("required", ()))
    rows = [
        (f"`{name}`", _type(field), _default(name, field, required), field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]
    if not rows:
        return
    yield from _table(("key", "type", "default", "meaning"), rows)


def _default(name: str, field: dict[str, Any], required: set[str]) -> str:
    if name in required:
        return "required"
    default = field.get("default")
    return "" if default in (None, [], {}, "") else f"`{default}`"


def _type(field: dict[str, Any]) -> str:
    if ref := field.get("$ref"):
        name = str(ref.rpartition("/")[2])
        if name.endswith("Config"):
            kind = name.removesuffix("Config").lower()
            return f"[{kind}](links.md#kind-{kind})"
        return f"[{name}](#{name.lower()})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in field:
            kinds = dict.fromkeys(_type(one) for one in field[key] if one.get("type") != "null")
            return " or ".join(kinds)
    kind = field.get("type", "any")
    if kind == "array":
        items = field.get("items") or {}
        return f"list of {_type(items)}" if items else "list"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"name -> {_type(field['additionalProperties'])}"
    return str(kind) + _bounds(field)


def _bounds(field: dict[str, Any]) -> str:
    words = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
    found = [f"{words[key]} {field[key]}" for key in words if key in field]
    return f", {', '.join(found)}" if found else ""


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    columns = list(header)
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in row)} |"
    yield ""


class Metrics(Generated):
    """Every metric with the name that `expect` and reports know it by."""

    def lines(self) -> Iterator[str]:
        from testbed.analysis.metrics import COUNTER_METRICS, FAMILIES, METRICS, SIDE_METRICS

        sized = (("SIZE.packets", "packets", None), ("SIZE.share", "share of the bytes", None))
        named = [(one.name, one.unit, one.better) for one in METRICS]
        named += [(f"{one.name}.{one.member}", one.unit, None) for one in FAMILIES]
        named += [(f"NODE:DEVICE.{one.name}", one.unit, one.better) for one in COUNTER_METRICS]
        sides = [*sized, *((one.name, one.unit, one.better) for one in SIDE_METRICS)]
        named += [(f"NODE:DEVICE.rx.{name}", unit, better) for name, unit, better in sides]
        rows = [(f"`{name}`", unit, better or "") for name, unit, better in named]
        yield from _table(("metric", "unit", "better"), rows)


class LinkKinds(Generated):
    """Every link kind with the keys that only it has."""

    def lines(self) -> Iterator[str]:
        from testbed.devices.links import KINDS
        from testbed.devices.links.kind import Device

        device = Device.model_json_schema(by_alias=True)
        common = set(device["properties"])
        for name, kind in KINDS.items():
            schema = kind.config.model_json_schema(by_alias=True)
            text = inspect.cleandoc(import_module(f"testbed.devices.links.{name}").__doc__ or "")
            yield from (f"## kind: {name}", "", text, "")
            own = {
                **schema,
                "description": "",
                "properties": {k: v for k, v in schema["properties"].items() if k not in common},
            }
            yield from _model(own)
            for title, below in schema.get("$defs", {}).items():
                if title not in device["$defs"]:
                    yield from (f"### {title}", "")
                    yield from _model(below)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    app.add_directive("model", Model)
    app.add_directive("link-kinds", LinkKinds)
    app.add_directive("metrics", Metrics)
    return {"parallel_read_safe": True}
