"""One round on this kernel: a fresh lab, a fresh workload, the evidence of both."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from testbed.errors import MissingCapability, TestbedError
from testbed.evidence.collector import Collector, EndsWithTest
from testbed.evidence.cpu import account
from testbed.experiments.resolve import ResolvedState
from testbed.experiments.schedule import Slot
from testbed.experiments.spec import RoundLimits
from testbed.lab.lab import Lab, open_lab
from testbed.nodes import process
from testbed.records.round import Cpu, Noise, PacketSizesMeta, Round, checked
from testbed.records.store import now
from testbed.running.agreement import Watch, compared, disagreements
from testbed.workloads import TOOLS
from testbed.workloads.tool import Hooks, Options, Outcome


@dataclass(frozen=True)
class Task:
    """A round to measure: its number, slot, state and kernel."""

    number: int
    slot: Slot
    state: ResolvedState
    kernel: str
    boot: int = 0
    warmup: bool = False

    def record(self, **fields: Any) -> Round:
        """The round's record from the task and `fields`."""
        return checked(
            Round(
                round=self.number,
                block=self.slot.block,
                position=self.slot.position,
                state=self.state.name,
                kernel=self.kernel,
                boot=self.boot,
                warmup=self.warmup,
                **fields,
            )
        )


def measure(task: Task, collectors: Sequence[Collector], limits: RoundLimits, raw: Path) -> Round:
    """Measure one round. A failure becomes the record's `reason`, not an exception."""
    begun, started = time.monotonic(), now()
    fields: dict[str, Any] = {}
    reasons: list[str] = []
    try:
        with open_lab(task.state.topology) as lab:
            fields["settings"] = lab.read_back()
            found, reasons = observe(
                lab,
                task.state.workload,
                collectors,
                cpus=task.state.cpus,
                limits=limits,
                raw=raw,
                raw_name=f"{task.number:05d}-{task.state.name}",
            )
            fields |= found
    except TestbedError as error:
        reasons.append(str(error))
    return task.record(
        valid=not reasons,
        reason="; ".join(reasons) or None,
        started=started,
        ended=now(),
        wall_s=round(time.monotonic() - begun, 6),
        **fields,
    )


def try_state(state: ResolvedState, collectors: Sequence[Collector] = ()) -> None:
    """Bring the state's lab up once and take it down. MissingCapability when this machine refuses it.

    What the state needs of the machine is tried as well, and so are the `collectors`.
    """
    cores = os.cpu_count() or 1
    for node, cpus in state.cpus.items():
        if max(cpus) >= cores:
            raise MissingCapability(f"cpus: {node} asks for CPU {max(cpus)}, this machine has {cores}")
    process.require()
    TOOLS[state.workload.tool].require(state.workload)
    with open_lab(state.topology) as lab:
        evidence = _Evidence(collectors)
        evidence.start(lab)
        evidence.measuring()
        evidence.stop()
    if evidence.broken:
        raise MissingCapability("; ".join(evidence.broken))


@dataclass
class _Evidence:
    """The collectors of one round. One that fails makes the round invalid; the others go on."""

    collectors: Sequence[Collector]
    broken: list[str] = field(default_factory=list)  # what each that failed says
    reasons: list[str] = field(default_factory=list)  # what the others say against the round
    fields: dict[str, Any] = field(default_factory=dict)
    _once: threading.Lock = field(default_factory=threading.Lock)

    def start(self, lab: Lab) -> None:
        for collector in self.collectors:
            self._guard(collector, collector.start, lab)

    def measuring(self) -> None:
        if self._once.acquire(blocking=False):
            for collector in self.collectors:
                self._guard(collector, collector.measuring)

    def over(self) -> None:
        for collector in self.collectors:
            if isinstance(collector, EndsWithTest):
                self._guard(collector, collector.over)

    def stop(self) -> None:
        # In reverse: the first to start sees the whole round, the others' cost included.
        for collector in reversed(self.collectors):
            found: Mapping[str, Any] = self._guard(collector, collector.stop) or {}
            self.reasons += found.get("invalid", [])
            self.fields |= {name: value for name, value in found.items() if name != "invalid"}

    def _guard(self, collector: Collector, step: Any, *args: Any) -> Any:
        try:
            return step(*args)
        except (TestbedError, OSError) as error:
            self.broken.append(f"{collector.name}: {error}")
            return None


def observe(
    lab: Lab,
    workload: Options,
    collectors: Sequence[Collector],
    *,
    cpus: Mapping[str, Collection[int]],
    limits: RoundLimits,
    raw: Path,
    raw_name: str,
) -> tuple[dict[str, Any], list[str]]:
    """Run `workload` once in a lab that is up: the fields of its record, and why the round is invalid."""
    watch = Watch(workload.nodes, has_warmup=workload.omit > 0)
    evidence = _Evidence([watch, *collectors])
    evidence.start(lab)
    try:
        outcome = TOOLS[workload.tool].run(
            lab,
            workload,
            cpus=cpus,
            hooks=Hooks(measuring=evidence.measuring, over=evidence.over),
            raw=raw,
            raw_name=raw_name,
        )
    finally:
        evidence.stop()
    fields: dict[str, Any] = {}
    reasons = _fill(fields, outcome, evidence, limits)
    return fields, reasons + _disagreements(workload, outcome, watch, fields)


def _fill(fields: dict[str, Any], outcome: Outcome, evidence: _Evidence, limits: RoundLimits) -> list[str]:
    """Put what was found into the record's fields; the reasons why the round is invalid."""
    fields |= evidence.fields
    fields["workload"] = outcome.workload
    fields["measured_s"] = outcome.measured_s
    reasons = [] if outcome.reason is None else [outcome.reason]
    if outcome.processes:
        cpu: Cpu = fields.get("cpu") or Cpu()
        cpu = replace(cpu, processes=cpu.processes | outcome.processes)
        noise = fields.get("noise")
        fields["cpu"], impossible = account(cpu, (noise.foreign if noise else None) or 0.0)
        reasons += [impossible] if impossible else []
    sizes = fields.get("packet_sizes_meta")
    return [
        *reasons,
        *evidence.broken,
        *evidence.reasons,
        *unseen_above(sizes, limits),
        *_too_noisy(fields.get("noise"), limits),
    ]


def _disagreements(workload: Options, outcome: Outcome, watch: Watch, fields: dict[str, Any]) -> list[str]:
    """Why the tools' figures cannot be true, and `agreement` into the record.

    Nothing to say where there are none, or they are doubted.
    """
    if outcome.reason is not None:
        return []
    traffic = watch.traffic(fields.get("counters") or {}, fields.get("tcp"))
    has_warmup, crosses = workload.omit > 0, workload.crosses
    fields["agreement"] = compared(outcome, traffic, has_warmup=has_warmup, crosses=crosses)
    return disagreements(outcome, traffic, has_warmup=has_warmup, crosses=crosses)


def unseen_above(sizes: PacketSizesMeta | None, limits: RoundLimits) -> list[str]:
    """The devices whose unseen packets are more than the limit, with the figures."""
    return [
        f"packet sizes: {one.packets} packets, {one.bytes} bytes not seen at {where}: "
        f"{one.share:.2g} of them, above the limit of {limits.unseen:.2g}"
        for where, one in (sizes.unseen if sizes else {}).items()
        if one.share > limits.unseen
    ]


def _too_noisy(noise: Noise | None, limits: RoundLimits) -> list[str]:
    """The declared limits that the round's noise went over, with both figures."""
    reasons = []
    for name, limit in limits.model_dump(exclude_none=True, exclude={"unseen"}).items():
        percent = getattr(noise, name, None)
        if percent is not None and percent > limit * 100:
            reasons.append(f"noise: {name} {percent:.1f}% is above the limit of {limit:.1%}")
    return reasons
