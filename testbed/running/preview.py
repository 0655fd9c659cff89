"""Preview of what a run that somebody else recorded would do to this machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.devices.operations import SetSysctl, TakeDevice
from testbed.errors import printable
from testbed.experiments.estimate import least_seconds
from testbed.experiments.resolve import Resolved, ResolvedState
from testbed.topology.plan import plan


def preview(resolved: Resolved, kernels: Sequence[str], boots: int, results: Path) -> list[str]:
    """One line for each kind of thing that leaves a mark: devices, sysctls, programs, kernels, time."""
    states = list(resolved.states.values())
    operations = [operation for state in states for operation in plan(state.topology)]
    nodes = max(len(state.topology.nodes) for state in states)
    kinds = {placed.kind for state in states for placed in state.topology.placed().values()}
    lines = [f"{resolved.name} asks this machine, as root, to"]
    lines.append(f"- make {nodes} network namespaces, with devices of kind {', '.join(sorted(kinds))}")
    if taken := [one.reference for one in operations if isinstance(one, TakeDevice)]:
        lines.append(f"- take away from this machine, while a round lasts, its own {_each(taken)}")
    if sysctls := [str(one) for one in operations if isinstance(one, SetSysctl)]:
        lines.append(f"- set in these namespaces {_each(sysctls)}")
    lines += [f"- run {text}" for text in dict.fromkeys(_workload(state) for state in states)]
    if pages := max(state.workload.huge_pages for state in states):
        lines.append(f"- reserve {pages} huge pages of this machine while a round lasts")
    if resolved.experiment.collect.stacks or resolved.experiment.collect.profile:
        lines.append("- record with perf, on every CPU")
    wanted = dict.fromkeys([*kernels, *(state.kernel for state in states if state.kernel)])
    if wanted:
        lines.append(f"- boot in a VM, {boots} times each: {_each(wanted)}")
    seconds = least_seconds(resolved.experiment.protocol, states) * max(1, len(wanted))
    lines.append(f"- measure {len(states)} states for at least {seconds:.0f} s")
    lines.append(f"- write into a new folder below {results}/")
    return [printable(line) for line in lines]


def _each(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _workload(state: ResolvedState) -> str:
    options = state.workload.model_dump(mode="json", exclude_unset=True, by_alias=True)
    return f"{options.pop('tool', state.workload.tool)}: {', '.join(_pairs(options))}"


def _pairs(options: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name} {value}" for name, value in options.items())
