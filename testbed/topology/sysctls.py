"""Sysctls in topology files: check their names, and find the devices they belong to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from testbed.nodes.sysctl_files import NO_DEVICES, PER_DEVICE, parts
from testbed.yamlfile import did_you_mean, mistake

Values = Mapping[str, int | str]


def device_of(name: str) -> str | None:
    """The device whose sysctl it is; None for one of the whole namespace, and of `all` and `default`."""
    words = parts(name)
    for above, word, _ in zip(words, words[1:], words[2:], strict=False):
        if above in PER_DEVICE:
            return None if word in NO_DEVICES else word
    return None


def mistake_in(name: str, devices: Collection[str]) -> str | None:
    """What is wrong with a sysctl in a node that has `devices`; None where nothing is."""
    for device in devices:
        before, found, after = name.partition(f".{device}.")
        if "." in device and found and "/" not in name:
            slashes = f"{before.replace('.', '/')}/{device}/{after.replace('.', '/')}"
            return f"sysctl {name}: the device's name holds a dot, write {slashes}"
    own = device_of(name)
    if own is None or own == "lo" or own in devices:
        return None
    return f"sysctl {name}: no device '{own}'{did_you_mean(own, [*devices])}"


def overlaid(below: Values, above: Values) -> dict[str, int | str]:
    """Both, `above` winning where two names spell one sysctl."""
    again = {parts(name) for name in above}
    return {**{name: value for name, value in below.items() if parts(name) not in again}, **above}


def _checked(name: str) -> str:
    parts(name)
    return name


def _once(values: dict[str, int | str]) -> dict[str, int | str]:
    first: dict[tuple[str, ...], str] = {}
    for name in values:
        other = first.setdefault(parts(name), name)
        if other != name:
            raise mistake(f"{other} states this sysctl already", name)
    return values


SysctlName = Annotated[str, AfterValidator(_checked)]
SysctlValue = int | Annotated[str, Field(max_length=1024)]
Sysctls = Annotated[dict[SysctlName, SysctlValue], AfterValidator(_once)]
