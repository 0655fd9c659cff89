"""Public functions for flows, experiments, runs and capabilities; exported by testbed/__init__.py."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from testbed.capabilities import Capabilities
from testbed.errors import TestbedError
from testbed.evidence.collect import CollectSpec
from testbed.evidence.collectors import collectors_for
from testbed.experiments.resolve import load_experiment, parse_override
from testbed.experiments.spec import RoundLimits
from testbed.lab.lab import Lab
from testbed.probing import find
from testbed.records.round import Counters, Cpu, PacketSize, PacketSizesMeta, Tcp, Workload
from testbed.records.store import find_run, results_folder
from testbed.running.measure import observe
from testbed.running.runner import Observer, Stop
from testbed.running.session import Ended, carry_out, kernels_of
from testbed.workloads import TOOLS, parse_options

if TYPE_CHECKING:
    from testbed.analysis.report import ReportData

Direction = Literal["rx", "tx"]


@dataclass(frozen=True)
class FlowRecord:
    """What one flow did. Field names are those of a line of rounds.jsonl.

    workload: the tool's own figures (`bits_per_second`, `retransmits`, `latency_us`...).
    packet_sizes: packets by device, direction, length (bytes, Ethernet header included), gso_size, gso_segs.
    counters: `node:device` -> what the interface counters rose by.
    cpu: percent by core and CPU seconds by role; None where it was not collected.
    tcp: the flow's TCP_INFO at its end; None where it was not collected.
    """

    workload: Workload
    packet_sizes: Sequence[PacketSize] = ()
    packet_sizes_meta: PacketSizesMeta = field(default_factory=PacketSizesMeta)
    counters: Mapping[str, Counters] = field(default_factory=dict)
    cpu: Cpu | None = None
    tcp: Tcp | None = None

    def sizes(self, device: str, direction: Direction = "rx") -> dict[int, int]:
        """Length in bytes -> packets across `device` (`node:device`), warm-up included."""
        found: Counter[int] = Counter()
        for one in self.packet_sizes:
            if (f"{one.node}:{one.device}", one.direction) == (device, direction):
                found[one.size] += one.packets
        return dict(sorted(found.items(), reverse=True))

    def largest(self, device: str, direction: Direction = "rx") -> int:
        """The largest packet that crossed `device`, in bytes; 0 where none was seen."""
        return max(self.sizes(device, direction), default=0)


def measure_flow(
    lab: Lab,
    workload: Mapping[str, Any],
    *,
    cpus: Mapping[str, Collection[int]] | None = None,
    collect: Mapping[str, Any] | None = None,
) -> FlowRecord:
    """Run one workload in a lab that is up, with the evidence of a round.

    workload: as in an experiment file (`tool`, `from`, `to`, `duration` in seconds...).
    cpus: node -> the CPUs of its processes. collect: as in an experiment file.
    InputError for an unknown key; MissingCapability for a tool that is not there;
    TestbedError where the flow failed or its figures contradict each other.
    """
    options = parse_options(workload)
    TOOLS[options.tool].require(options)
    collectors = collectors_for(CollectSpec.model_validate(dict(collect or {})))
    try:
        with tempfile.TemporaryDirectory(prefix="testbed-flow-") as raw:
            fields, reasons = observe(
                lab,
                options,
                collectors,
                cpus=cpus or {},
                limits=RoundLimits(),
                raw=Path(raw),
                raw_name="flow",
            )
    finally:
        for collector in collectors:
            collector.close()
    if reasons:
        raise TestbedError("; ".join(reasons))
    known = {name: fields[name] for name in FlowRecord.__dataclass_fields__ if name in fields}
    return FlowRecord(**known)


def run_experiment(
    name: str,
    *,
    assign: Sequence[str] = (),
    states: Sequence[str] = (),
    kernels: Sequence[str] = (),
    boots: int = 1,
    results: Path | None = None,
    observer: Observer | None = None,
) -> Ended:
    """Run an experiment (a shipped name or a file) to its end: `folder`, `status`, `failures`.

    assign: `protocol.rounds=7`, `workload.length=1M`, `NODE:DEVICE.SETTING=VALUE`, as `run --set` takes them.
    states: only these. kernels: boot these of `kernel list`, each `boots` times. results: where runs go.
    InputError, MissingCapability, TestbedError; an invalid round is in the record, not an error.
    """
    resolved = load_experiment(name, overrides=[parse_override(text) for text in assign], states=states)
    return carry_out(
        resolved,
        None,
        kernels=kernels_of(resolved, kernels, boots),
        results=results_folder(results),
        argv=["testbed", "run", name, *(word for text in assign for word in ("--set", text))],
        observer=observer or Observer(),
        stop=Stop(),
    )


def read_run(run: str | Path, results: Path | None = None) -> ReportData:
    """Everything that a report says about a run: states, comparisons, expectations (see `schema report`).

    run: its folder, its id below `results`, or `latest`. InputError where there is none.
    """
    from testbed.analysis.reading import read_report

    return read_report(find_run(str(run), results_folder(results))).data


def find_capabilities(names: Iterable[str]) -> Capabilities:
    """What this kernel and machine can do, found by trying: `values`, and `why` for what is missing."""
    return find(names)
