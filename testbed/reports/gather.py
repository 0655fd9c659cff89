"""Rounds condensed to columns of figures, one round at a time, so that a long run needs little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from testbed.experiments.records import Round, Run
from testbed.reports.metrics import figures, size_of


@dataclass(frozen=True)
class Series:
    """One metric over rounds: the number of each round, its block, its value."""

    rounds: Sequence[int]
    blocks: Sequence[int]
    values: Sequence[float]


@dataclass
class Column:
    """One metric's values, and which of the state's rounds (by index) have it."""

    indices: array[int] = field(default_factory=lambda: array("l"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class StateRounds:
    """One state on one kernel. The columns hold its valid rounds that count, in order of execution."""

    state: str
    kernel: str
    rounds: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    with_sizes: list[int] = field(default_factory=list)  # indices of the rounds that saw packet sizes
    columns: dict[str, Column] = field(default_factory=dict)
    invalid: list[Round] = field(default_factory=list)
    warmup: int = 0
    example: Round | None = None

    def series(self, metric: str) -> Series:
        """The metric in each round that knows it; a packet size absent from a round is 0."""
        column = self.columns.get(metric) or Column()
        indices: Sequence[int] = column.indices
        values: Sequence[float] = column.values
        if size_of(metric):
            dense = [0.0] * len(self.rounds)
            for index, value in zip(column.indices, column.values, strict=True):
                dense[index] = value
            indices, values = self.with_sizes, [dense[index] for index in self.with_sizes]
        if len(indices) == len(self.rounds):
            return Series(self.rounds, self.blocks, values)
        return Series([self.rounds[i] for i in indices], [self.blocks[i] for i in indices], values)

    def occurrences(self, metric: str) -> int:
        """In how many rounds the metric has a value."""
        return len(self.columns[metric].indices) if metric in self.columns else 0

    def values_at(self, index: int) -> dict[str, float]:
        """Every figure of one round, by its index among the valid ones."""
        return {
            name: column.values[column.indices.index(index)]
            for name, column in self.columns.items()
            if index in column.indices
        }

    def metrics(self) -> list[str]:
        """Every metric that some round has; first seen first, packet sizes by device and size."""
        return sorted(self.columns, key=lambda name: size_of(name) or ("", "", 0))

    def add(self, record: Round, units: dict[str, str]) -> None:
        """Add a valid round that counts; `units` learns the unit of each metric."""
        index = len(self.rounds)
        self.rounds.append(record.round)
        self.blocks.append(record.block)
        if record.packet_sizes:
            self.with_sizes.append(index)
        self.example = self.example or record
        columns = self.columns
        for name, unit, value in figures(record):
            column = columns.get(name)
            if column is None:
                column = columns[name] = Column()
                units[name] = unit
            column.indices.append(index)
            column.values.append(value)


@dataclass
class Gathered:
    """All rounds of a run by state, and the unit of each metric."""

    states: dict[str, StateRounds] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)


def label(state: str, kernel: str, kernels: int) -> str:
    """What a report calls a state: `state@kernel` in a run of several kernels."""
    return f"{state}@{kernel}" if kernels > 1 else state


def gather(rounds: Iterable[Round], run: Run) -> Gathered:
    """Condense `rounds`. States that had no round are left out, the others in the experiment's order."""
    kernels = len(run.kernels)
    states = {
        label(state, kernel, kernels): StateRounds(state, kernel)
        for state in run.states
        for kernel in run.kernels
    }
    gathered = Gathered(states)
    for record in rounds:
        name = label(record.state, record.kernel, kernels)
        held = states.setdefault(name, StateRounds(record.state, record.kernel))
        if record.warmup:
            held.warmup += 1
        elif record.valid:
            held.add(record, gathered.units)
        else:
            held.invalid.append(record.model_copy(update={"packet_sizes": [], "settings": {}}))
    gathered.states = {name: held for name, held in states.items() if held.rounds or held.invalid}
    return gathered
