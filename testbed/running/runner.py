"""Run an experiment: find the states that can run, and measure rounds until there are enough."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from testbed.errors import InputError, MissingCapability, TestbedError, printable
from testbed.experiments.estimate import least_seconds
from testbed.experiments.resolve import Resolved, ResolvedState
from testbed.experiments.schedule import Leg, Slot, StoppingRule, block_order, next_legs
from testbed.records.round import Round
from testbed.records.run import Kernel, Run, Status, state_label
from testbed.records.store import RUN, RunWriter, StoredRun, now, run_id
from testbed.running.measure import Task
from testbed.running.provenance import machine, tool_versions
from testbed.running.site import Site, SiteLost
from testbed.stats.compare import half_width

WARMUP_BLOCK = -1


class Observer:
    """Callbacks on a run's progress. By default they do nothing."""

    def begun(self, run: Run, folder: Path, rule: StoppingRule, seconds: float) -> None:
        """`seconds` is what the least number of rounds will take."""

    def waiting(self, reason: str) -> None:
        """Called while the machine is too noisy to begin."""

    def skipped(self, state: str, reason: str) -> None: ...

    def measuring(self, task: Task) -> None: ...

    def measured(self, record: Round, progress: Progress) -> None: ...


@dataclass
class Progress:
    """The valid figures so far, and the widths of the effects' intervals.

    A label is a state, or `state@kernel` in a run of several kernels. There each
    state is compared across the kernels, the first one as the baseline.
    """

    comparisons: list[tuple[str, str]]
    kernels: int = 1
    figures: dict[str, dict[int, float]] = field(default_factory=dict)  # label -> block -> bits a second
    blocks: int = 0

    def label(self, state: str, kernel: str) -> str:
        return state_label(state, kernel, self.kernels)

    def add(self, record: Round) -> None:
        if record.valid and not record.warmup:
            label = self.label(record.state, record.kernel)
            self.figures.setdefault(label, {})[record.block] = _figure(record)

    def has(self, block: int, label: str) -> bool:
        return block in self.figures.get(label, {})

    def without(self, skipped: Container[str]) -> None:
        """Forget comparisons that lost a side."""
        self.comparisons = [(a, b) for a, b in self.comparisons if a not in skipped and b not in skipped]

    def half_widths(self) -> dict[str, float | None]:
        """Comparison -> half width of the 95% interval of its ratio, None while unknown."""
        return {f"{a} : {b}": self._half_width(a, b) for a, b in self.comparisons}

    def _half_width(self, a: str, b: str) -> float | None:
        left, right = self.figures.get(a, {}), self.figures.get(b, {})
        blocks = sorted(left.keys() & right.keys())
        return half_width([left[k] for k in blocks], [right[k] for k in blocks])


def _figure(record: Round) -> float:
    """The figure that decides when there are enough rounds: the workload's throughput."""
    return (record.workload.bits_per_second if record.workload else None) or 0.0


@dataclass
class Stop:
    """Set by a signal: end after the round in progress."""

    requested: bool = False


@dataclass
class Runner:
    """One run: its legs one after the other, each on the site that `open_site` opens."""

    resolved: Resolved
    legs: Sequence[Leg]
    open_site: Callable[[Leg], Site]
    writer: RunWriter
    observer: Observer
    stop: Stop
    progress: Progress = field(init=False)
    failed: list[str] = field(default_factory=list)
    able: set[str] = field(default_factory=set)  # states that some kernel of the run can run
    hopeless: set[str] = field(default_factory=set)  # states with a wanted round that stayed invalid
    _number: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        kernels = list(dict.fromkeys(leg.kernel for leg in self.legs if leg.kernel is not None))
        self.progress = Progress(self.resolved.comparisons(), len(kernels))
        if len(kernels) > 1:
            self.progress.comparisons = [
                (self.progress.label(state, kernels[0]), self.progress.label(state, other))
                for state in self.resolved.states
                for other in kernels[1:]
            ]

    @property
    def rule(self) -> StoppingRule:
        protocol = self.resolved.experiment.protocol
        return StoppingRule(protocol.rounds, max(protocol.cap, protocol.rounds), protocol.target)

    def run(self, earlier: Iterable[Round] = ()) -> Status:
        """Measure. `earlier` are the rounds of a resumed run. The run's folder says how it ended.

        It is complete when every wanted round is valid, interrupted when it was stopped
        before, and failed when a wanted round stayed invalid. All but a complete one can
        be resumed.
        """
        try:
            self._resume(earlier)
            to_the_end = all(self._leg(leg) for leg in self._all_legs())
        except KeyboardInterrupt:
            self.writer.end("interrupted")
            return "interrupted"
        except BaseException:
            self.writer.end("failed")
            raise
        status: Status = "interrupted" if not to_the_end else "failed" if self.hopeless else "complete"
        self.writer.end(status)
        return status

    def _resume(self, earlier: Iterable[Round]) -> None:
        last = -1
        for record in earlier:
            self.progress.add(record)
            last = record.round
        self._number = count(last + 1)

    def _all_legs(self) -> Iterator[Leg]:
        """The planned legs; then boots of each kernel, one more at a time, until there are enough rounds."""
        legs = list(self.legs)
        yield from legs
        while (last := legs[-1].last) is not None and not self.enough(last + 1):
            more = next_legs(legs, self.rule.cap)
            yield from more
            legs += more

    def enough(self, blocks: int) -> bool:
        """Whether to stop after `blocks` whole blocks."""
        return self.rule.enough(blocks, self.progress.half_widths())

    def _leg(self, leg: Leg) -> bool:
        """Measure a leg's blocks. False when stopped before its end."""
        if self.stop.requested:
            return False
        with _Bench(self, leg) as bench:
            states = bench.runnable_states()
            if leg is self.legs[0]:
                seconds = least_seconds(self.resolved.experiment.protocol, [*states, *self._elsewhere(leg)])
                self.observer.begun(self.writer.run, self.writer.folder, self.rule, seconds)
            return bench.warm_up(states) and bench.blocks(states)

    def _elsewhere(self, leg: Leg) -> list[ResolvedState]:
        """The states that kernels other than the leg's are to run, each once for each of them."""
        others = {other.kernel for other in self.legs} - {leg.kernel}
        states = self.resolved.states.values()
        return [state for kernel in others for state in states if state.kernel in (None, kernel)]


@dataclass
class _Bench:
    """A leg being measured: its site, opened anew when it was lost."""

    runner: Runner
    leg: Leg
    site: Site = field(init=False)

    def __enter__(self) -> _Bench:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.site.close()

    def _open(self) -> None:
        self.site = self.runner.open_site(self.leg)
        writer = self.runner.writer
        self.site.raw = writer.raw
        if self.leg.kernel is not None:  # what only a booted kernel tells: version, command line
            writer.update(kernels={**writer.run.kernels, self.site.name: self.site.kernel()})

    def runnable_states(self) -> list[ResolvedState]:
        """The states that this kernel can run; the others are recorded with the reason."""
        resolved, writer = self.runner.resolved, self.runner.writer
        runnable = {n: s for n, s in resolved.states.items() if s.kernel in (None, self.site.name)}
        required = {name for state in runnable.values() for name in state.requires}
        found = self.site.capabilities(required) if required else None
        skipped: dict[str, str] = {}
        for name, state in runnable.items():
            unmet = found.unmet(state.requires) if found else []
            reason = "; ".join(unmet) or self._refusal(state)
            if reason:
                skipped[name] = reason
        labelled = {self.runner.progress.label(name, self.site.name): why for name, why in skipped.items()}
        states = [state for name, state in runnable.items() if name not in skipped]
        self.runner.able |= {state.name for state in states}
        if not self.runner.able and self.leg.boot + 1 >= self.runner.progress.kernels:  # no kernel is left
            name, reason = next(iter({**writer.run.skipped, **labelled}.items()))
            raise MissingCapability(f"no state of {resolved.name} can run here: {name}: {reason}")
        for label, reason in labelled.items():
            if label not in writer.run.skipped:
                self.runner.observer.skipped(label, reason)
        writer.update(skipped={**writer.run.skipped, **labelled})
        self.runner.progress.without(labelled)
        return states

    def _refusal(self, state: ResolvedState) -> str:
        try:
            self.site.try_state(state)
        except MissingCapability as error:
            return str(error)
        except InputError as error:
            raise self.runner.resolved.error(state.name, str(error)) from None
        return ""

    def warm_up(self, states: Sequence[ResolvedState]) -> bool:
        """Warm-up rounds, on each boot anew. False when stopped."""
        order = self._order(states, WARMUP_BLOCK)
        for position in range(self.runner.resolved.experiment.protocol.warmup if order else 0):
            if self.runner.stop.requested:
                return False
            state = order[position % len(order)]
            self._measure(Slot(WARMUP_BLOCK, position, state.name), state, warmup=True)
        return True

    def blocks(self, states: Sequence[ResolvedState]) -> bool:
        """Block after block to the leg's last one, or until there are enough. False when stopped."""
        progress, block = self.runner.progress, self.leg.first
        while not self._enough(block):
            for position, state in enumerate(self._order(states, block)):
                if progress.has(block, progress.label(state.name, self.site.name)):
                    continue
                if self.runner.stop.requested or not self._until_valid(
                    Slot(block, position, state.name), state
                ):
                    return False
            block += 1
            progress.blocks = max(progress.blocks, block)
        return True

    def _enough(self, blocks: int) -> bool:
        if self.leg.last is not None:
            return blocks > self.leg.last
        return self.runner.enough(blocks)

    def _until_valid(self, slot: Slot, state: ResolvedState) -> bool:
        """Measure the slot; again, at once, while the round is invalid and retries are left.

        False when stopped before it was valid. A state that used them all up once gets a
        single try from then on: what fails every time would only cost time.
        """
        retries = self.runner.resolved.experiment.protocol.retries
        for _ in range(1 if state.name in self.runner.hopeless else 1 + retries):
            record = self._measure(slot, state)
            if record.valid:
                return True
            if self.runner.stop.requested:
                return False
        self.runner.hopeless.add(state.name)
        self.runner.failed.append(f"{state.name}, block {slot.block + 1}: no valid round: {record.reason}")
        return True

    def _measure(self, slot: Slot, state: ResolvedState, *, warmup: bool = False) -> Round:
        runner = self.runner
        task = Task(next(runner._number), slot, state, self.site.name, self.leg.boot, warmup)
        runner.observer.measuring(task)
        started = now()
        try:
            record = self.site.measure(task)
        except SiteLost as error:
            record = task.record(started=started, ended=now(), valid=False, reason=str(error))
            self.site.close()
            self._open()
        runner.writer.append(record)
        runner.progress.add(record)
        runner.failed += [f"round {record.round}, {state.name}: kernel: {f}" for f in record.kernel_faults]
        runner.observer.measured(record, runner.progress)
        return record

    def _order(self, states: Sequence[ResolvedState], block: int) -> list[ResolvedState]:
        named = {state.name: state for state in states}
        return [named[name] for name in block_order(list(named), self.runner.writer.run.seed, block)]


def new_run(
    resolved: Resolved, kernels: Mapping[str, Kernel], boots: int, results: Path, argv: Sequence[str]
) -> RunWriter:
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
        kernels=dict(kernels),
        boots=boots,
        tools=tool_versions(),
        states={name: state.as_record() for name, state in resolved.states.items()},
    )
    return RunWriter.create(results, run)


def reopen(stored: StoredRun, resolved: Resolved, kernels: Mapping[str, Kernel]) -> RunWriter:
    """Go on writing a run. InputError when it would not be the same run any more."""
    differing = differences(stored.run, resolved, kernels)
    if differing:
        raise InputError(f"{stored.folder}: cannot resume: {'; '.join(differing)}; start a new run")
    if stored.run.status == "complete":
        raise InputError(f"{stored.folder}: the run is complete; nothing to resume")
    run = stored.run.model_copy(update={"status": "running", "finished": None, "skipped": {}})
    return RunWriter(stored.folder, run)


def differences(run: Run, resolved: Resolved, kernels: Mapping[str, Kernel]) -> list[str]:
    """Reasons why a run cannot be continued with these kernels."""
    reasons = []
    if _identity(run.kernels) != _identity(kernels):
        recorded, now_ = (", ".join(sorted(each)) for each in (run.kernels, kernels))
        reasons.append(f"its kernels differ: the run's are {recorded}, here are {now_}, or another build")
    states = {name: state.as_record() for name, state in resolved.states.items()}
    every = states.keys() | run.states.keys()
    changed = sorted(name for name in every if states.get(name) != run.states.get(name))
    if changed:
        reasons.append(f"these states differ: {', '.join(changed)}")
    if run.experiment.get("protocol") != resolved.as_record().get("protocol"):
        reasons.append("the protocol differs")
    return reasons


def _identity(kernels: Mapping[str, Kernel]) -> set[tuple[str, str, str | None]]:
    return {(name, kernel.release, kernel.config_sha256) for name, kernel in kernels.items()}


def rebuild(stored: StoredRun) -> Resolved:
    """The experiment as the run recorded it, so that it can be resumed without its file."""
    from testbed.experiments.spec import Experiment, word

    record = dict(stored.run.experiment)
    try:
        name = word(str(record.pop("name", "")), "an experiment")
        experiment = Experiment.model_validate(record)
        states = {word(n): ResolvedState.from_record(n, body) for n, body in stored.run.states.items()}
        if not states:
            raise ValueError("it has no states")
    except (ValueError, TestbedError) as error:
        reason = " ".join(printable(str(error), keep="\n").split())
        raise InputError(f"{stored.folder / RUN}: cannot rebuild its experiment: {reason}") from None
    return Resolved(name, experiment, states)
