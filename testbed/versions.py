"""Compare and sort versions of kernels and tools."""

from __future__ import annotations

import re


def version_key(text: str) -> tuple[int, ...]:
    """The leading dotted number of a version or kernel release: `6.18.5-rc1` is (6, 18, 5)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def order_key(text: str) -> tuple[tuple[int, ...], float, tuple[int, ...]]:
    """What versions sort by: that number, a release after its candidates, then every other number."""
    match = re.search(r"[-~]rc(\d+)", text)
    candidate = float(match[1]) if match else float("inf")
    return version_key(text), candidate, tuple(int(number) for number in re.findall(r"\d+", text))


def version_fits(prefix: str, version: str) -> bool:
    """Whether `version` is `prefix` or begins with its numbers: 7.3 fits 7.3.4, not 7.30."""
    wanted = version_key(prefix)
    return bool(re.fullmatch(r"\d+(\.\d+)*", prefix)) and version_key(version)[: len(wanted)] == wanted
