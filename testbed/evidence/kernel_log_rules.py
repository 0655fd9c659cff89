"""Classify lines of the kernel log by the rules of kernel_log_rules.yaml."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

# As the console, dmesg and PRINTK_CALLER write it: "[   12.345678][  T123] ". On a console,
# what a program wrote may stand before it on the same line.
STAMP = re.compile(r"^(?:<\d+>)?(?:.*\[\s*\d+\.\d{6}\]\s?)?(?:\[\s*[TC]\d+\]\s?)?")
Meaning = Literal["crash", "invalid", "notice"]


@dataclass(frozen=True)
class Rule:
    """A kind of line. means: see kernel_log_rules.yaml."""

    name: str
    means: Meaning
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Finding:
    """A line that a rule fits, without its time stamp."""

    rule: Rule
    line: str


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every rule, in the order in which they decide."""
    rules = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return tuple(Rule(rule["name"], rule["means"], re.compile(rule["pattern"])) for rule in rules)


def judge(line: str) -> Finding | None:
    """What a line of the log, with or without its time stamp, means; None when it is nothing."""
    text = STAMP.sub("", line).rstrip()
    for rule in rules():
        if rule.pattern.search(text):
            return Finding(rule, text)
    return None


def findings(lines: Iterable[str]) -> list[Finding]:
    """The lines that matter, in their order."""
    return [found for line in lines if (found := judge(line))]


def crash(lines: Iterable[str]) -> str | None:
    """The line with which the kernel crashed, the first where there are several; None when it did not."""
    return next((found.line for found in findings(lines) if found.rule.means == "crash"), None)
