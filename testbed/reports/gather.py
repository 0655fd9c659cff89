"""Rounds condensed to figures, one round at a time, so that a long run needs little memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from testbed.experiments.records import Round
from testbed.reports.metrics import METRICS, size_of


@dataclass(frozen=True)
class Sample:
    """One round's figures: metric -> value."""

    round: int
    block: int
    values: Mapping[str, float]
    sizes_seen: bool


@dataclass
class StateRounds:
    """The rounds of one state. `samples` are the valid ones that count, in order of execution."""

    samples: list[Sample] = field(default_factory=list)
    invalid: list[Round] = field(default_factory=list)
    warmup: int = 0
    example: Round | None = None

    def series(self, metric: str) -> list[tuple[Sample, float]]:
        """The metric in each round that knows it; a packet size absent from a round is 0."""
        default = 0.0 if size_of(metric) else None
        found = []
        for sample in self.samples:
            value = sample.values.get(metric, default if sample.sizes_seen else None)
            if value is not None:
                found.append((sample, value))
        return found

    def metrics(self) -> list[str]:
        """Every metric that some round has; first seen first, packet sizes in order of size."""
        names = dict.fromkeys(name for sample in self.samples for name in sample.values)
        return sorted(names, key=lambda name: size_of(name) or ("", "", 0))


@dataclass
class Gathered:
    """All rounds of a run by state, and the unit of each metric."""

    states: dict[str, StateRounds] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)


def gather(rounds: Iterable[Round], states: Iterable[str] = ()) -> Gathered:
    """Condense `rounds`. `states` come first and in this order, with or without rounds."""
    gathered = Gathered({state: StateRounds() for state in states})
    for record in rounds:
        held = gathered.states.setdefault(record.state, StateRounds())
        if record.warmup:
            held.warmup += 1
        elif not record.valid:
            held.invalid.append(record.model_copy(update={"packet_sizes": [], "settings": {}}))
        else:
            held.example = held.example or record
            held.samples.append(_sample(record, gathered.units))
    return gathered


def _sample(record: Round, units: dict[str, str]) -> Sample:
    values: dict[str, float] = {}
    for metric in METRICS:
        for name, value in metric.read(record):
            if value is not None:
                values[name] = value
                units[name] = metric.unit
    return Sample(record.round, record.block, values, sizes_seen=bool(record.packet_sizes))
