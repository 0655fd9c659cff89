"""`NODE:DEVICE.SETTING=VALUE`, as commands take it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from testbed import yamlfile
from testbed.devices.settings import Settings
from testbed.errors import InputError


def parse_assignments(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """`node:device` (* in either) -> settings as a file would hold them.

    A word that is no setting is taken for a feature: `client:veth0.tso=off`.
    InputError for what does not read as NODE:DEVICE.SETTING=VALUE.
    """
    result: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, equals, word = text.partition("=")
        node, colon, rest = name.partition(":")
        device, dot, setting = _split(rest)
        if not (equals and colon and dot and node and device and setting):
            raise InputError(f"'{text}': expected NODE:DEVICE.SETTING=VALUE, such as client:veth0.mtu=9000")
        value = yamlfile.parse_word(word, text)
        settings = result.setdefault(f"{node}:{device}", {})
        if setting in Settings.model_fields and setting != "features":
            settings[setting] = value
        else:
            settings.setdefault("features", {})[setting.removeprefix("features.")] = value
    return result


def _split(rest: str) -> tuple[str, str, str]:
    """Device and setting; a device's name may hold dots (`eth0.100`)."""
    outer, dot, setting = rest.rpartition(".")
    if outer.endswith(".features"):
        return outer.removesuffix(".features"), dot, f"features.{setting}"
    return outer, dot, setting
