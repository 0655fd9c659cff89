"""The description of a run: a line for each state, and a paragraph on the method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from testbed.records.round import Round
from testbed.records.run import Run

# Options of a workload that the method paragraph, not the state's line, tells.
_TOLD_BY_METHOD = {"tool", "from", "to", "family", "duration", "omit", "congestion"}


def measured_states(run: Run) -> list[str]:
    """The states in the experiment's order, those that were skipped left out."""
    return [name for name in run.states if name not in run.skipped]


def state_headers(run: Run) -> dict[str, str]:
    """State -> what makes it: the requested settings, and the options in which the states differ."""
    states = {name: run.states[name] for name in measured_states(run)}
    options = {name: _options(state) for name, state in states.items()}
    differing = {key for one in options.values() for key in one if _differs(key, options.values())}
    headers = {}
    for name, state in states.items():
        words = [*settings_words(state.get("settings") or {})]
        words += [_word(key, value) for key, value in options[name].items() if key in differing and value]
        headers[name] = " ".join(words)
    return headers


def method(run: Run, examples: Mapping[str, Round]) -> str:
    """One paragraph: tool, flow, duration, order, kernel, machine, and what the figures mean."""
    sentences = [_flow(run), _protocol(run, examples), _machine(run, examples), *_meaning(examples)]
    return " ".join(sentence for sentence in sentences if sentence)


def settings_words(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """`mtu=1500` where all devices named agree, else `client:veth0 mtu=1500`."""
    flat = {place: dict(_flat(values)) for place, values in settings.items()}
    words = []
    for key in dict.fromkeys(key for values in flat.values() for key in values):
        held = {place: values[key] for place, values in flat.items() if key in values}
        if len(set(held.values())) == 1 and len(held) == len(flat):
            words.append(f"{key}={next(iter(held.values()))}")
        else:
            words += [f"{place} {key}={value}" for place, value in held.items()]
    return words


def _flat(values: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Settings as words; features stand for themselves (`tso=off`)."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        elif isinstance(value, bool):
            yield key, "on" if value else "off"
        elif isinstance(value, list):
            yield key, ",".join(str(item) for item in value)
        elif value is not None:
            yield key, str(value)


def _options(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state's workload options, CPUs and kernel, flat."""
    workload = {k: v for k, v in (state.get("workload") or {}).items()}
    cpus = state.get("cpus") or {}
    pinned = ",".join(f"{node}:{'+'.join(map(str, listed))}" for node, listed in cpus.items())
    return {**workload, "cpus": pinned, "kernel": state.get("kernel")}


def _differs(key: str, states: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the states hold different values; one that was never set counts as unset."""
    return len({str(options.get(key) or "") for options in states}) > 1


def _word(key: str, value: Any) -> str:
    return key if value is True else f"{key}={value}"


def _flow(run: Run) -> str:
    states = [run.states[name].get("workload") or {} for name in measured_states(run)]
    common = {k: v for k, v in (states[0] if states else {}).items() if all(s.get(k) == v for s in states)}
    tool = str(common.get("tool", "the workload"))
    version = run.tools.get(tool, "")
    options = [_word(k, v) for k, v in common.items() if k not in _TOLD_BY_METHOD and v not in (None, False)]
    ends = f" from {common['from']} to {common['to']}" if "from" in common and "to" in common else ""
    family = f" over IPv{common['family']}" if "family" in common else ""
    listed = f" ({', '.join(options)})" if options else ""
    return f"Measured with {f'{tool} {version}'.strip()}{ends}{family}{listed}."


def _protocol(run: Run, examples: Mapping[str, Round]) -> str:
    states = [run.states[name].get("workload") or {} for name in measured_states(run)]
    omitted = max((float(state.get("omit") or 0) for state in states), default=0.0)
    measured = sorted({f"{record.measured_s:.3g}" for record in examples.values() if record.measured_s})
    seconds = f"{' to '.join(dict.fromkeys((measured[0], measured[-1])))} s" if measured else ""
    after = f" after {omitted:g} s omitted" if omitted else ""
    length = f"; a round measured {seconds}{after}" if seconds else ""
    return (
        "Each round had a fresh topology and fresh processes; the states took turns in blocks of random "
        f"order (seed {run.seed}){length}."
    )


def _machine(run: Run, examples: Mapping[str, Round]) -> str:
    kernels = ", ".join(_kernel(kernel.release, len(kernel.series)) for kernel in run.kernels.values())
    machine = run.machine
    parts = [
        f"{machine.cores} cores" if machine.cores else "",
        machine.cpu_model,
        f"{machine.memory_bytes / 2**30:.0f} GiB" if machine.memory_bytes else "",
        f"virtualisation {machine.virtualisation}" if machine.virtualisation else "",
    ]
    where = ", ".join(part for part in parts if part)
    flows = {record.workload.congestion for record in examples.values() if record.workload}
    congestion = ", ".join(sorted(flow for flow in flows if flow))
    sentence = f"Linux {kernels}" if kernels else ""
    sentence += f" on {where}" if where and sentence else where
    sentence += f", congestion control {congestion}" if congestion and sentence else ""
    return f"{sentence}." if sentence else ""


def _kernel(release: str, patches: int) -> str:
    return f"{release} with {patches} patches" if patches else release


def _meaning(examples: Mapping[str, Round]) -> list[str]:
    sentences = [
        "Figures are mean [95% interval] ±sd over the valid rounds; the interval is Student's.",
        "An effect is the geometric mean of the ratios b/a within blocks; p is of an exact sign-flip test.",
    ]
    collectors = sorted({record.packet_sizes_meta.collector for record in examples.values()} - {"none"})
    if collectors:
        names = {"bpf": "BPF", "af_packet": "AF_PACKET"}
        by = " and ".join(names[collector] for collector in collectors)
        sentences.append(
            f"Packets were counted by exact length (Ethernet header included) with {by}, in the "
            "measured seconds; a size that a round lacks counts 0 there."
        )
    return sentences
