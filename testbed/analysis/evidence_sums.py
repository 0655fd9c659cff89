"""Evidence for the report: kernel stacks, CPU profile, rules by which sizes match counters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from testbed.records.round import Profile, Round, Stack

_Where = tuple[str, str, tuple[str, ...]]  # device, direction, frames


@dataclass
class Evidence:
    """Sums over the valid rounds of a state."""

    samples: Counter[_Where] = field(default_factory=Counter)
    largest: dict[_Where, int] = field(default_factory=dict)
    profiles: int = 0
    profiled: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    rules: dict[str, None] = field(default_factory=dict)

    def add(self, record: Round) -> None:
        for one in record.stacks:
            where = one.device, one.direction, tuple(one.frames)
            self.samples[where] += one.samples
            self.largest[where] = max(one.largest, self.largest.get(where, 0))
        if record.profile is not None:
            self.profiles += 1
            self.profiled += record.profile.samples
            for name, share in record.profile.functions.items():
                self.shares[name] = self.shares.get(name, 0.0) + share
        for side, rule in record.packet_sizes_meta.rules.items():
            # "7 dropped after they were seen": the number is another one in each round.
            self.rules[f"{side}: {re.sub('^[0-9]+ ', 'packets ', rule)}"] = None

    def stacks(self) -> list[Stack]:
        """Each stack once, the most frequent first."""
        return [
            Stack(
                device=device,
                direction="rx" if direction == "rx" else "tx",
                samples=samples,
                largest=self.largest[device, direction, frames],
                frames=list(frames),
            )
            for (device, direction, frames), samples in self.samples.most_common()
        ]

    def profile(self) -> Profile | None:
        """The mean profile of the rounds; a function that a round does not list counts 0 there."""
        if not self.profiles:
            return None
        functions = {name: share / self.profiles for name, share in self.shares.items()}
        return Profile(samples=self.profiled, functions=functions)


class Difference(NamedTuple):
    """A function's share of the busy CPU time in two states, in percent."""

    function: str
    a: float
    b: float


def differing(a: Profile, b: Profile, most: int = 10) -> list[Difference]:
    """The functions whose share differs most between two profiles; one that is not listed counts 0."""
    names = a.functions.keys() | b.functions.keys()
    found = [Difference(name, a.functions.get(name, 0.0), b.functions.get(name, 0.0)) for name in names]
    return sorted(found, key=lambda one: (-abs(one.b - one.a), one.function))[:most]


def all_rules(states: Sequence[Evidence]) -> list[str]:
    """`server:veth0 rx: merged by GRO...`, each once."""
    return list(dict.fromkeys(rule for held in states for rule in held.rules))


def first_stacks(stacks: Mapping[str, Sequence[Stack]]) -> list[tuple[str, str, list[str]]]:
    """(heading, note, frames) of the most frequent stack of each device and direction of each state.

    A state whose stacks are those of the state before it is named beside it.
    """
    found: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    notes: dict[tuple[str, str, tuple[str, ...]], str] = {}
    for state, held in stacks.items():
        sides = dict.fromkeys((one.device, one.direction) for one in held)
        for device, direction in sides:
            ours = [one for one in held if (one.device, one.direction) == (device, direction)]
            key = device, direction, tuple(ours[0].frames)
            found.setdefault(key, []).append(state)
            total = sum(one.samples for one in ours)
            notes.setdefault(key, f"len {ours[0].largest} at most, {ours[0].samples} of {total} samples")
    return [
        (f"Stack at {device} {direction} ({', '.join(states)})", notes[device, direction, frames], [*frames])
        for (device, direction, frames), states in found.items()
    ]
