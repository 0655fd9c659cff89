"""How long an experiment takes, and how many rounds fit into a time. Pure."""

from __future__ import annotations

import re

from testbed.errors import InputError
from testbed.experiments.resolve import Resolved

# A fresh lab, two fresh processes, evidence read: 0.4 s on the machines this was measured on.
OVERHEAD_S = 0.5
_UNITS = {"s": 1, "m": 60, "h": 3600, "": 1}


def block_seconds(resolved: Resolved) -> float:
    """Seconds that one block takes: each state once."""
    options = [state.workload for state in resolved.states.values()]
    return sum(option.omit + option.duration + OVERHEAD_S for option in options)


def least_seconds(resolved: Resolved) -> float:
    """Seconds that the least number of rounds takes, warm-up included."""
    protocol = resolved.experiment.protocol
    warmup = protocol.warmup * block_seconds(resolved) / len(resolved.states)
    return protocol.rounds * block_seconds(resolved) + warmup


def blocks_within(resolved: Resolved, seconds: float) -> int:
    """Whole blocks that fit into `seconds`; InputError when not even one does."""
    warmup = resolved.experiment.protocol.warmup * block_seconds(resolved) / len(resolved.states)
    blocks = int((seconds - warmup) / block_seconds(resolved))
    if blocks < 1:
        needed = block_seconds(resolved) + warmup
        raise InputError(f"--budget {seconds:.0f}s: one round of each state takes {needed:.0f} s; allow more")
    return blocks


def parse_seconds(text: str, where: str) -> float:
    """`90`, `90s`, `10m` or `1.5h` in seconds. InputError, naming `where`, for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if not match:
        raise InputError(f"{where} {text}: expected a time such as 90s, 10m or 1.5h")
    return float(match[1]) * _UNITS[match[2]]
