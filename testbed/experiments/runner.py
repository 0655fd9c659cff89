"""Carries an experiment out: which states can run, round after round, until there are enough."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.evidence.machine import machine, tool_versions
from testbed.experiments.estimate import least_seconds
from testbed.experiments.measure import Task
from testbed.experiments.place import Place
from testbed.experiments.records import Round, Run, Status
from testbed.experiments.resolve import Resolved, ResolvedState
from testbed.experiments.schedule import Slot, StoppingRule, block_order
from testbed.experiments.store import ROUNDS, RunWriter, StoredRun, now, run_id
from testbed.stats.compare import compare_pairs

WARMUP_BLOCK = -1


class Observer:
    """Told of a run's progress. Every method may be left as it is."""

    def begun(self, run: Run, folder: Path, rule: StoppingRule, seconds: float) -> None:
        """`seconds` is what the least number of rounds will take."""

    def skipped(self, state: str, reason: str) -> None: ...

    def measuring(self, task: Task) -> None: ...

    def measured(self, record: Round, progress: Progress) -> None: ...


@dataclass
class Progress:
    """What the rounds so far say: the figures of the valid ones, and how wide the effects' intervals are."""

    comparisons: list[tuple[str, str]]
    figures: dict[str, dict[int, float]] = field(default_factory=dict)  # state -> block -> bits a second
    blocks: int = 0
    invalid: int = 0

    def add(self, record: Round) -> None:
        if not record.valid:
            self.invalid += 1
        elif not record.warmup:
            self.figures.setdefault(record.state, {})[record.block] = _figure(record)

    def has(self, slot: Slot) -> bool:
        return slot.block in self.figures.get(slot.state, {})

    def half_widths(self) -> dict[str, float | None]:
        """Comparison -> half width of the 95% interval of its ratio, None while unknown."""
        return {f"{a} : {b}": self._half_width(a, b) for a, b in self.comparisons}

    def _half_width(self, a: str, b: str) -> float | None:
        left, right = self.figures.get(a, {}), self.figures.get(b, {})
        blocks = sorted(left.keys() & right.keys())
        interval = compare_pairs([left[k] for k in blocks], [right[k] for k in blocks]).ci95
        return None if interval is None else (interval[1] - interval[0]) / 2


def _figure(record: Round) -> float:
    """The figure that decides when there are enough rounds: the workload's throughput."""
    return (record.workload.bits_per_second if record.workload else None) or 0.0


@dataclass
class Stop:
    """Set by a signal: end after the round in progress."""

    asked: bool = False


@dataclass
class Runner:
    """One run. `run` measures until there are enough rounds or `stop` is set."""

    resolved: Resolved
    place: Place
    writer: RunWriter
    observer: Observer
    stop: Stop
    progress: Progress = field(init=False)
    failed: list[str] = field(default_factory=list)
    _number: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.progress = Progress(self.resolved.comparisons())

    @property
    def rule(self) -> StoppingRule:
        protocol = self.resolved.experiment.protocol
        return StoppingRule(protocol.rounds, max(protocol.cap, protocol.rounds), protocol.target)

    def run(self, earlier: Iterable[Round] = ()) -> Status:
        """Measure. `earlier` are the rounds of a resumed run. The run's folder says how it ended."""
        try:
            self._resume(earlier)
            states = self._runnable_states()
            self.observer.begun(self.writer.run, self.writer.folder, self.rule, least_seconds(self.resolved))
            self._warm_up(states)
            complete = self._blocks(states)
        except KeyboardInterrupt:
            self.writer.end("interrupted")
            return "interrupted"
        except BaseException:
            self.writer.end("failed")
            raise
        status: Status = "complete" if complete else "interrupted"
        self.writer.end(status)
        return status

    def _resume(self, earlier: Iterable[Round]) -> None:
        last = -1
        for record in earlier:
            self.progress.add(record)
            last = record.round
        self._number = count(last + 1)

    def _runnable_states(self) -> list[ResolvedState]:
        """The states that this kernel can run; the others are recorded with the reason."""
        required = {name for state in self.resolved.states.values() for name in state.requires}
        found = self.place.capabilities(required) if required else None
        skipped: dict[str, str] = {}
        for name, state in self.resolved.states.items():
            unmet = found.unmet(state.requires) if found else []
            reason = "; ".join(unmet) or self._refusal(state)
            if reason:
                skipped[name] = reason
                self.observer.skipped(name, reason)
        self.writer.update(skipped=skipped)
        states = [state for name, state in self.resolved.states.items() if name not in skipped]
        if not states:
            name, reason = next(iter(skipped.items()))
            raise MissingCapability(f"no state of {self.resolved.name} can run here: {name}: {reason}")
        self.progress.comparisons = [
            pair for pair in self.progress.comparisons if not skipped.keys() & set(pair)
        ]
        return states

    def _refusal(self, state: ResolvedState) -> str:
        try:
            self.place.try_state(state)
        except MissingCapability as error:
            return str(error)
        return ""

    def _warm_up(self, states: Sequence[ResolvedState]) -> None:
        order = self._order(states, WARMUP_BLOCK)
        for position in range(self.resolved.experiment.protocol.warmup):
            if self.stop.asked:
                return
            state = order[position % len(order)]
            self._measure(Slot(WARMUP_BLOCK, position, state.name), state, warmup=True)

    def _blocks(self, states: Sequence[ResolvedState]) -> bool:
        """Block after block until there are enough. False when stopped before."""
        for block in count():
            if self.rule.enough(block, self.progress.half_widths()):
                return True
            for position, state in enumerate(self._order(states, block)):
                slot = Slot(block, position, state.name)
                if self.stop.asked:
                    return False
                if not self.progress.has(slot):
                    self._until_valid(slot, state)
            self.progress.blocks = block + 1
        raise AssertionError("blocks do not end")

    def _until_valid(self, slot: Slot, state: ResolvedState) -> None:
        """Measure the slot; again, at once, while the round is invalid and retries are left."""
        for _ in range(1 + self.resolved.experiment.protocol.retries):
            record = self._measure(slot, state)
            if record.valid or self.stop.asked:
                return
        self.failed.append(f"state {state.name}, block {slot.block}: no valid round: {record.reason}")

    def _measure(self, slot: Slot, state: ResolvedState, *, warmup: bool = False) -> Round:
        task = Task(next(self._number), slot, state, self.place.name, warmup)
        self.observer.measuring(task)
        record = self.place.measure(task)
        self.writer.append(record)
        self.progress.add(record)
        self.observer.measured(record, self.progress)
        return record

    def _order(self, states: Sequence[ResolvedState], block: int) -> list[ResolvedState]:
        named = {state.name: state for state in states}
        return [named[name] for name in block_order(list(named), self.writer.run.seed, block)]


def new_run(resolved: Resolved, place: Place, results: Path, argv: Sequence[str]) -> RunWriter:
    """A fresh run's folder, with everything that is known before the first round."""
    seed = resolved.experiment.protocol.seed
    first = next(iter(resolved.states.values()))
    run = Run(
        schema=1,
        run_id=run_id(resolved.name),
        experiment=resolved.as_record(),
        topology=first.as_record()["topology"],
        status="running",
        started=now(),
        seed=secrets.randbelow(2**32) if seed is None else seed,
        argv=list(argv),
        machine=machine(),
        kernels={place.name: place.kernel()},
        tools=tool_versions(),
        states={name: state.as_record() for name, state in resolved.states.items()},
    )
    return RunWriter.create(results, run)


def reopen(stored: StoredRun, resolved: Resolved, place: Place) -> RunWriter:
    """Go on writing a run. InputError when it would not be the same run any more."""
    differing = differences(stored.run, resolved, place)
    if differing:
        raise InputError(f"{stored.folder}: cannot resume: {'; '.join(differing)}; start a new run")
    if stored.run.status == "complete":
        raise InputError(f"{stored.folder}: the run is complete; nothing to resume")
    run = stored.run.model_copy(update={"status": "running", "finished": None})
    return RunWriter(stored.folder, run)


def differences(run: Run, resolved: Resolved, place: Place) -> list[str]:
    """What keeps a run from being continued here, in words."""
    here = place.kernel()
    known = run.kernels.get(place.name)
    reasons = []
    if known is None or (known.version, known.config_sha256) != (here.version, here.config_sha256):
        recorded = ", ".join(kernel.release for kernel in run.kernels.values())
        reasons.append(f"the run's kernel is {recorded}, this one is {here.release} {here.version}")
    states = {name: state.as_record() for name, state in resolved.states.items()}
    changed = sorted(
        name for name in states.keys() | run.states.keys() if states.get(name) != run.states.get(name)
    )
    if changed:
        reasons.append(f"these states differ: {', '.join(changed)}")
    if run.experiment.get("protocol") != resolved.as_record().get("protocol"):
        reasons.append("the protocol differs")
    return reasons


def rebuild(stored: StoredRun) -> Resolved:
    """The experiment as the run recorded it, so that it can be resumed without its file."""
    from testbed.experiments.spec import Experiment

    record = dict(stored.run.experiment)
    name = record.pop("name")
    try:
        experiment = Experiment.model_validate(record)
        states = {n: ResolvedState.from_record(n, body) for n, body in stored.run.states.items()}
    except (ValueError, KeyError, TestbedError) as error:
        raise InputError(f"{stored.folder / ROUNDS}: cannot rebuild its experiment: {error}") from None
    return Resolved(name, experiment, states)
