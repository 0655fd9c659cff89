"""How long an experiment takes, and how many rounds fit into a time. Pure."""

from __future__ import annotations

from collections.abc import Collection

from testbed.errors import InputError
from testbed.experiments.resolve import Resolved, ResolvedState
from testbed.experiments.spec import Protocol

# A fresh lab, two fresh processes, evidence read: 0.4 s on the machines this was measured on.
OVERHEAD_S = 0.5


def block_seconds(states: Collection[ResolvedState]) -> float:
    """Seconds that one block takes: each of `states` once."""
    options = [state.workload for state in states]
    return sum(option.omit + option.duration + OVERHEAD_S for option in options)


def warmup_seconds(protocol: Protocol, states: Collection[ResolvedState]) -> float:
    """Seconds that the rounds before the first block take."""
    return protocol.warmup * block_seconds(states) / len(states) if states else 0.0


def least_seconds(protocol: Protocol, states: Collection[ResolvedState]) -> float:
    """Seconds that the least number of rounds takes, with warm-up. `states`: each once for each kernel."""
    return protocol.rounds * block_seconds(states) + warmup_seconds(protocol, states)


def blocks_within(resolved: Resolved, seconds: float) -> int:
    """Whole blocks that fit into `seconds`; InputError when not even one does."""
    states = resolved.states.values()
    block, warmup = block_seconds(states), warmup_seconds(resolved.experiment.protocol, states)
    blocks = int((seconds - warmup) / block)
    if blocks < 1:
        needed = block + warmup
        raise InputError(f"--budget {seconds:.0f}s: one round of each state takes {needed:.0f} s; allow more")
    return blocks
