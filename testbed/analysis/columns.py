"""Rounds condensed to columns of figures, one round at a time, so that a long run needs little memory."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from statistics import fmean

from msgspec.structs import replace

from testbed.analysis.evidence_sums import Evidence
from testbed.analysis.flow_over_time import FlowOverTime
from testbed.analysis.metric_key import DeviceMetric, Side, packet_size
from testbed.analysis.metrics import figures_of, sides_of
from testbed.analysis.sureness import Sureness
from testbed.records.round import Round
from testbed.records.run import Run, state_label
from testbed.stats.power import Inside


@dataclass(frozen=True)
class Series:
    """One metric over rounds: the number of each round, its block, its value."""

    rounds: Sequence[int]
    blocks: Sequence[int]
    values: Sequence[float]


@dataclass(slots=True)
class Column:
    """One metric's values, and which of the state's rounds (by index) have it."""

    indices: array[int] = field(default_factory=lambda: array("l"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class SizeLog:
    """Packets of one side of a device: a row for each round (by index) and exact size.

    Most figures of a round are these, and most sizes are rare: of a long run only those that a
    report tells become columns.
    """

    indices: array[int] = field(default_factory=lambda: array("l"))
    sizes: array[int] = field(default_factory=lambda: array("l"))
    packets: array[int] = field(default_factory=lambda: array("q"))

    def add(self, index: int, seen: dict[int, int]) -> None:
        """One round's packets by size."""
        self.indices.extend(repeat(index, len(seen)))
        self.sizes.extend(seen)
        self.packets.extend(seen.values())

    def totals(self) -> Counter[int]:
        """Size -> its packets in all rounds."""
        totals: Counter[int] = Counter()
        for size, packets in zip(self.sizes, self.packets, strict=True):
            totals[size] += packets
        return totals

    def main(self, least: float) -> Iterator[int]:
        """The sizes that carry this share of the side's packets, or of its bytes."""
        totals = self.totals()
        few = least * totals.total()
        little = least * sum(size * packets for size, packets in totals.items())
        return (size for size, packets in totals.items() if packets >= few or size * packets >= little)

    def columns(self, wanted: Container[int]) -> dict[int, Column]:
        """The wanted sizes that were seen, each with the rounds that saw it."""
        found: dict[int, Column] = {}
        for index, size, packets in zip(self.indices, self.sizes, self.packets, strict=True):
            if size in wanted:
                column = found.get(size)
                if column is None:
                    column = found[size] = Column()
                column.indices.append(index)
                column.values.append(packets)
        return found


@dataclass
class StateRounds:
    """One state on one kernel. The columns hold its valid rounds that count, in order of execution."""

    state: str
    kernel: str
    rounds: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    boots: list[int] = field(default_factory=list)
    with_sizes: list[int] = field(default_factory=list)  # indices of the rounds that saw packet sizes
    columns: dict[str | DeviceMetric, Column] = field(default_factory=dict)
    sizes: dict[Side, SizeLog] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    inside: Inside = field(default_factory=Inside)
    warmups: dict[int, float] = field(default_factory=dict)  # block -> rate of the warm-up over the rest's
    invalid: list[Round] = field(default_factory=list)
    warmup: int = 0
    flow: FlowOverTime = field(default_factory=FlowOverTime)
    sureness: Sureness = field(default_factory=Sureness)
    example: Round | None = None

    def series(self, metric: str | DeviceMetric) -> Series:
        """The metric in each round that knows it; a packet size absent from a round is 0."""
        if not packet_size(metric):
            return self.seen(metric)
        column = self.columns.get(metric) or Column()
        dense = [0.0] * len(self.rounds)
        for index, value in zip(column.indices, column.values, strict=True):
            dense[index] = value
        return self._series(self.with_sizes, [dense[index] for index in self.with_sizes])

    def seen(self, metric: str | DeviceMetric) -> Series:
        """As `series`, without the rounds that lack the packet size."""
        column = self.columns.get(metric) or Column()
        return self._series(column.indices, column.values)

    def by_index(self, metric: str | DeviceMetric) -> list[tuple[int, float]]:
        """(index of the round, value) of each round that `series` has."""
        indices = self.with_sizes if packet_size(metric) else (self.columns.get(metric) or Column()).indices
        return list(zip(indices, self.series(metric).values, strict=True))

    def _series(self, indices: Sequence[int], values: Sequence[float]) -> Series:
        if len(indices) == len(self.rounds):
            return Series(self.rounds, self.blocks, values)
        return Series([self.rounds[i] for i in indices], [self.blocks[i] for i in indices], values)

    def values_at(self, index: int) -> dict[str | DeviceMetric, float]:
        """Every figure of one round, by its index among the valid ones."""
        return {
            name: column.values[column.indices.index(index)]
            for name, column in self.columns.items()
            if index in column.indices
        }

    def metrics(self) -> list[str | DeviceMetric]:
        """Every metric that some round has; first seen first, packet sizes by device and size."""
        sizes = {key: found for key in self.columns if (found := packet_size(key))}
        return [*(key for key in self.columns if key not in sizes), *sorted(sizes, key=sizes.__getitem__)]

    def add(self, record: Round) -> None:
        """Add a valid round that counts."""
        index = len(self.rounds)
        self.rounds.append(record.round)
        self.blocks.append(record.block)
        self.boots.append(record.boot)
        if record.packet_sizes:
            self.with_sizes.append(index)
        self.example = self.example or record
        self.evidence.add(record)
        self.sureness.add(index, record)
        self.flow.add(record)
        if (flow := record.workload) and flow.intervals:
            self.inside.add(flow.intervals, flow.interval_s)
            if flow.omitted_intervals and (rate := fmean(flow.intervals)) > 0:
                self.warmups[record.block] = fmean(flow.omitted_intervals) / rate
        sides = sides_of(record)
        for side, seen in sides.items():
            self.sizes.setdefault(side, SizeLog()).add(index, seen.sizes)
        columns = self.columns
        for key, value in figures_of(record, sides):
            column = columns.get(key)
            if column is None:
                column = columns[key] = Column()
            column.indices.append(index)
            column.values.append(value)

    def add_sizes(self, side: Side, sizes: Container[int]) -> None:
        """Add a column for each of these sizes of a side."""
        for size, column in self.sizes.get(side, SizeLog()).columns(sizes).items():
            self.columns[side.metric(size)] = column


@dataclass
class RoundColumns:
    """All rounds of a run by state. `clock_steps`: round -> by how many seconds its wall clock was set."""

    states: dict[str, StateRounds] = field(default_factory=dict)
    clock_steps: dict[int, list[float]] = field(default_factory=dict)

    def select_sizes(self, least: float, also: Iterable[str | DeviceMetric] = ()) -> None:
        """Make metrics of the packet sizes with a share of `least` of their side in any state.

        0 takes all. `also` names metrics to take whatever they carry.
        """
        selected: dict[Side, set[int]] = {}
        for state_rounds in self.states.values():
            for side, log in state_rounds.sizes.items():
                selected.setdefault(side, set()).update(log.main(least))
        for key in also:
            if found := packet_size(key):
                selected.setdefault(found.side, set()).add(found.size)
        for state_rounds in self.states.values():
            for side, sizes in selected.items():
                state_rounds.add_sizes(side, sizes)


def condense(rounds: Iterable[Round], run: Run) -> RoundColumns:
    """Condense rounds to columns by state, in the experiment's order; states without a round are left out."""
    kernels = len(run.kernels)
    states = {
        state_label(state, kernel, kernels): StateRounds(state, kernel)
        for state in run.states
        for kernel in run.kernels
    }
    columns = RoundColumns(states)
    for record in rounds:
        name = state_label(record.state, record.kernel, kernels)
        state_rounds = states.setdefault(name, StateRounds(record.state, record.kernel))
        if record.clock_steps:
            columns.clock_steps[record.round] = [step.by_s for step in record.clock_steps]
        if record.warmup:
            state_rounds.warmup += 1
        elif record.valid:
            state_rounds.add(record)
        else:
            state_rounds.invalid.append(replace(record, packet_sizes=[], settings={}))
    columns.states = {
        name: state_rounds
        for name, state_rounds in states.items()
        if state_rounds.rounds or state_rounds.invalid
    }
    return columns


def in_pairs(x: Series, y: Series) -> tuple[list[float], list[float]]:
    """A metric's values in the blocks where two states have it, block by block."""
    if x.blocks == y.blocks:
        return list(x.values), list(y.values)
    left, right = dict(zip(x.blocks, x.values, strict=True)), dict(zip(y.blocks, y.values, strict=True))
    blocks = sorted(left.keys() & right.keys())
    return [left[block] for block in blocks], [right[block] for block in blocks]
