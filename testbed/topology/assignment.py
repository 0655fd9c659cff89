"""`NODE:DEVICE.SETTING=VALUE`, the one way in which every command takes a setting."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from testbed import yamlfile
from testbed.errors import InputError

GRAMMAR = "NODE:DEVICE.SETTING=VALUE"
# A device's name may hold dots and = (eth0.100); a setting's or a feature's name holds neither.
_ASSIGNMENT = re.compile(
    r"(?P<node>[^:=]+):(?P<device>.+?)\.(?:features\.)?(?P<setting>[\w-]+)\s*=(?P<word>.*)"
)


def parse_assignment(text: str, where: str) -> tuple[str, dict[str, Any]]:
    """`node:device` (* in either), and the setting as a file would hold it. `where` begins an error.

    A feature is named as it is, `client:veth0.tso=off`, or below `features`.
    InputError for what does not read as NODE:DEVICE.SETTING=VALUE.
    """
    match = _ASSIGNMENT.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{where}: expected {GRAMMAR}, such as client:veth0.mtu=9000 or *:veth0.tso=off")
    value = parse_value(match["word"], where)
    return f"{match['node']}:{match['device']}", {match["setting"]: value}


def parse_assignments(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Several, later ones on top: `node:device` -> settings."""
    result: dict[str, dict[str, Any]] = {}
    for text in texts:
        reference, settings = parse_assignment(text, f"'{text}'")
        result.setdefault(reference, {}).update(settings)
    return result


def parse_value(word: str, where: str) -> Any:
    """A value on the command line, read as a file's would be. InputError where there is none."""
    value = yamlfile.parse_word(word, where)
    if value is None:
        raise InputError(f"{where}: the value is missing")
    return value
