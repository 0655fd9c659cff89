"""Parameters of an experiment file: replace `$name` (or `${name}`) in its values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from testbed.yamlfile import Document, Key, did_you_mean

_NAME = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def filled_in(document: Document) -> Document:
    """The document with every parameter replaced by its value. InputError for one that is not declared.

    A value that is nothing but a parameter takes its type; inside other text it becomes text.
    """
    value = document.value
    known = value.get("parameters", {}) if isinstance(value, dict) else None
    if not isinstance(known, dict):
        return document  # a mistake that validation tells
    filled = {
        key: body if key == "parameters" else _filled(document, (key,), body, known)
        for key, body in value.items()
    }
    return replace(document, value=filled)


def unknown(name: str, known: Mapping[str, Any]) -> str:
    """That there is no parameter `name`, and what there is."""
    there = f"; there are {', '.join(known)}" if known else "; the file declares none under 'parameters:'"
    return f"no parameter '{name}'{did_you_mean(name, list(known)) or there}"


def _filled(document: Document, key: Key, value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(document, (*key, name), body, known) for name, body in value.items()}
    if isinstance(value, list):
        return [_filled(document, (*key, index), body, known) for index, body in enumerate(value)]
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> Any:
        name = match[1] or match[2]
        if name not in known:
            raise document.error(key, unknown(name, known))
        return known[name]

    whole = _NAME.fullmatch(value)
    return look_up(whole) if whole else _NAME.sub(lambda match: str(look_up(match)), value)
