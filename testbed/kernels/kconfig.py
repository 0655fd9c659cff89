"""Kernel configuration: the lean config that labs need, merged with fragments, and checked after make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import InputError
from testbed.kernels.cache import parse_config
from testbed.kernels.tree import Tree, run_git
from testbed.yamlfile import did_you_mean

LEAN = Path(__file__).parent / "netdev.config"


@dataclass(frozen=True)
class Lost:
    """An option whose actual value is not the requested one."""

    option: str
    requested: str
    actual: str
    where: str | None  # file:line of its definition; None when the tree has no such option

    def __str__(self) -> str:
        if self.where is None:
            return f"{self.option} does not exist in this tree"
        return (
            f"{self.option}={self.requested} does not hold (it is {self.actual}); it depends on: {self.where}"
        )


def merged(fragments: Sequence[Path]) -> dict[str, str]:
    """What the lean config and the `fragments` over it ask for. InputError for what is not a fragment."""
    requested = parse_config(LEAN.read_text())
    for path in fragments:
        requested |= read_fragment(path)
    return requested


def read_fragment(path: Path) -> dict[str, str]:
    """A fragment's options; each line is CONFIG_X=value, `# CONFIG_X is not set`, a comment or empty."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read: {getattr(error, 'strerror', None) or 'not text'}") from None
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#") and not re.fullmatch(r"CONFIG_\w+=\S.*", line.strip()):
            raise InputError(f"{path}:{number}: expected CONFIG_NAME=value, got '{line.strip()}'")
    return parse_config("\n".join(lines))


def fragment(options: dict[str, str]) -> str:
    """Options as a file for KCONFIG_ALLCONFIG."""
    lines = [f"# {name} is not set" if value == "n" else f"{name}={value}" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def lost(requested: dict[str, str], actual: dict[str, str], tree: Tree, commit: str) -> list[Lost]:
    """The options whose actual value is not the requested one, and where the tree defines each."""
    return [
        Lost(name, value, actual.get(name, "n"), definition(tree, commit, name))
        for name, value in requested.items()
        if actual.get(name, "n") != value
    ]


def definition(tree: Tree, commit: str, option: str) -> str | None:
    """file:line of `config NAME` in a Kconfig file; None when there is none."""
    name = option.removeprefix("CONFIG_")
    pattern = rf"^[[:space:]]*(menu)?config[[:space:]]+{name}[[:space:]]*$"
    found = run_git(tree.source, "grep", "-n", "-E", pattern, commit, "--", "*Kconfig*").stdout
    if not found:
        return None
    _, path, line, *_ = found.splitlines()[0].split(":")
    return f"{path}:{line}"


def check_fragments(fragments: Sequence[Path], missing: list[Lost], known: Sequence[str]) -> list[Lost]:
    """Raise InputError for the lost options of the user's fragments; return those of the lean config.

    An older tree lacks some options of the lean config; what a user requests must hold.
    """
    requested = {name: path for path in fragments for name in read_fragment(path)}
    wrong = [each for each in missing if each.option in requested]
    if wrong:
        texts = [
            f"{requested[each.option]}: {each}"
            + (did_you_mean(each.option, list(known)) if each.where is None else "")
            for each in wrong
        ]
        raise InputError("; ".join(texts))
    return missing
