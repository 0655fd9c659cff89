"""Which states of an experiment can run with given capabilities, and what the others lack."""

from __future__ import annotations

from collections.abc import Collection

from testbed.capabilities import Capabilities, Value
from testbed.errors import TestbedError
from testbed.experiments.resolve import Resolved, ResolvedState


def lacking(resolved: Resolved, found: Capabilities) -> dict[str, list[str]]:
    """State -> what it lacks, as text; an empty list where it can run."""
    return {name: found.unmet(needs(state, found.values)) for name, state in resolved.states.items()}


def lacking_or_refused(resolved: Resolved, found: Capabilities) -> dict[str, list[str]]:
    """As `lacking`; a state that lacks nothing is brought up once, and what the kernel refuses added."""
    lacks = lacking(resolved, found)
    return {name: reasons or _refusal(resolved.states[name]) for name, reasons in lacks.items()}


def needs(state: ResolvedState, known: Collection[str]) -> dict[str, Value]:
    """What a state requires: what its file says, and what follows from its devices, tool and CPUs.

    `known`: names of capabilities. A link kind or a tool beyond these is not required.
    """
    kinds = (device.kind for device in state.topology.placed().values())
    implied = {"root", *state.workload.tools, *kinds}
    requirements: dict[str, Value] = {name: True for name in sorted(implied & set(known))}
    if state.cpus:
        requirements["cores"] = f">= {max(max(cpus) for cpus in state.cpus.values()) + 1}"
    return {**requirements, **state.requires}


def _refusal(state: ResolvedState) -> list[str]:
    from testbed.running.measure import try_state

    try:
        try_state(state)
    except TestbedError as error:
        return [str(error)]
    return []
