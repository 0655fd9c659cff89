"""Parsers of option values, by the same rules as in files."""

from __future__ import annotations

import typer

from testbed.units import parse_seconds


def seconds(text: str | float) -> float:
    """A time in seconds. typer.BadParameter for what is none, and for 0."""
    try:
        found = parse_seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not found:
        raise typer.BadParameter("expected more than 0 s")
    return found
