"""Render the probed capabilities as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from testbed.capabilities import Capabilities, Value

_INDENT = "  "


def table(
    found: Capabilities,
    sections: Mapping[str, Iterable[str]],
    experiments: Mapping[str, Mapping[str, Sequence[str]]],
) -> str:
    """The capabilities by section (title -> names), then each experiment's states with what they lack."""
    lines: list[str] = []
    for title, names in sections.items():
        lines += [title, *(_row(name, _in_words(found, name)) for name in names)]
    lines.append("experiments")
    for name, states in experiments.items():
        lines.append(_row(name, _count(states)))
        lines += [f"{_INDENT * 2}{state}: {reason}" for state in states for reason in states[state]]
    return "\n".join(lines) + "\n"


def _in_words(found: Capabilities, name: str) -> str:
    if not found.has(name):
        return f"no: {found.why.get(name, 'not found')}"
    attributes = [
        f"{key.partition('.')[2]} {_word(value)}"
        for key, value in found.values.items()
        if key.startswith(f"{name}.")
    ]
    return ", ".join([_word(found.values[name]), *attributes])


def _word(value: Value) -> str:
    return "yes" if value is True else "no" if value is False else str(value)


def _count(states: Mapping[str, Sequence[str]]) -> str:
    able = sum(not reasons for reasons in states.values())
    return f"{able} of {len(states)} states can run here"


def _row(name: str, text: str) -> str:
    return f"{_INDENT}{name:<15} {text}"
