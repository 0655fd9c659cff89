"""The model of an experiment file."""

from __future__ import annotations

import re
from itertools import product
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from testbed.analysis.expect import parse
from testbed.capabilities import parse_requirement
from testbed.devices.settings import Cpu, Settings
from testbed.evidence.collect import CollectSpec
from testbed.topology.sysctls import Sysctls
from testbed.unit_fields import CoreShare, Seconds, Share
from testbed.yamlfile import mistake
from testbed.yamlvalues import shortened


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _word(value: object) -> object:
    """A truth value or a whole number as text. Not 3.10, which YAML reads as 3.1: it must be quoted."""
    return str(value).lower() if isinstance(value, int) else value


def parse_cpus(value: object) -> object:
    """`0`, `[0, 2]` and `0-2,5` as a sorted list of CPU numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, str):
        if not isinstance(value, list | tuple):
            raise ValueError(f"expected CPUs such as 0 or 0-2,5, got {value!r}")
        return value
    cpus: set[int] = set()
    for part in value.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4})(?:-([0-9]{1,4}))?\s*", part)
        if not match:
            raise ValueError(f"expected CPUs such as 0 or 0-2,5, got {shortened(value)!r}")
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(cpus)


Cpus = Annotated[list[Cpu], BeforeValidator(parse_cpus), Field(min_length=1)]
Text = Annotated[str, BeforeValidator(_word)]


def word(name: str, of: str = "a state") -> str:
    """`name`, if a state or an experiment may be called so: files carry it. ValueError otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+=,-]{0,99}", name):
        raise ValueError(
            f"'{shortened(name)}' is not {of}'s name: letters, digits and . _ + = , - only, at most 100"
        )
    return name


StateName = Annotated[str, AfterValidator(word)]


def _pair(value: object) -> object:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"expected two states, such as [before, after], got {value!r}")
    return value


Pair = Annotated[tuple[str, str], BeforeValidator(_pair)]


class Variation(Model):
    """What can differ between two states. Later ones win: experiment, axes, state, command line."""

    settings: dict[str, Settings] = Field(
        default_factory=dict, description="`node:device` (with * as a wildcard) -> settings"
    )
    sysctls: dict[str, Sysctls] = Field(
        default_factory=dict, description="node (with * as a wildcard) -> sysctl -> value"
    )
    workload: dict[str, Any] = Field(default_factory=dict, description="options of the workload")
    cpus: dict[str, Cpus] = Field(default_factory=dict, description="node -> the CPUs of its processes")
    requires: dict[str, Text] = Field(
        default_factory=dict, description="capability -> condition, such as `veth.max_mtu: '>= 524280'`"
    )
    topology: str | None = Field(
        None, description="the topology: a shipped name, or a path relative to this file"
    )
    kernel: str | None = Field(
        None, description="the kernel this state runs on, by its name in `kernel list`"
    )

    @model_validator(mode="after")
    def _readable(self) -> Self:
        for name, condition in self.requires.items():
            try:
                parse_requirement(condition)
            except ValueError as error:
                raise mistake(str(error), "requires", name) from None
        return self


class State(Variation):
    description: str = ""


class Matrix(Model):
    """States as the product of axes: `axis -> value -> variation`."""

    axes: dict[str, dict[StateName, Variation]] = Field(min_length=1)
    exclude: list[dict[str, Text]] = Field(
        default_factory=list, description="combinations to leave out: axis -> value, all must fit"
    )

    @model_validator(mode="after")
    def _known(self) -> Matrix:
        for index, combination in enumerate(self.exclude):
            for axis, value in combination.items():
                if axis not in self.axes:
                    known = ", ".join(self.axes)
                    raise mistake(f"'{axis}' is not an axis; the axes are {known}", "exclude", index, axis)
                if _value(value, self.axes[axis]) is None:
                    known = ", ".join(self.axes[axis])
                    raise mistake(f"{axis} has no value '{value}'; it has {known}", "exclude", index, axis)
        return self

    def states(self) -> dict[str, list[Variation]]:
        """State name (its axes' values joined by `-`) -> what each axis contributes."""
        result: dict[str, list[Variation]] = {}
        for values in product(*(axis.items() for axis in self.axes.values())):
            named = dict(zip(self.axes, (name for name, _ in values), strict=True))
            if not any(self._fits(named, combination) for combination in self.exclude):
                result["-".join(named.values())] = [variation for _, variation in values]
        return result

    def _fits(self, named: dict[str, str], combination: dict[str, str]) -> bool:
        return all(named[axis] == _value(value, self.axes[axis]) for axis, value in combination.items())


def _value(word: str, axis: dict[str, Variation]) -> str | None:
    """The axis value that `word` names. YAML reads a bare on, off, yes, no as true or false."""
    spellings = {"true": ("true", "on", "yes"), "false": ("false", "off", "no")}.get(word, (word,))
    return next((name for name in axis if name in spellings), None)


class NoiseLimits(Model):
    """Above any of these a round is invalid, and is run again."""

    cpu_pressure: Share | None = Field(
        None, description="share of the round in which a task waited for a CPU"
    )
    steal: Share | None = Field(None, description="share of CPU time taken by the hypervisor")
    foreign: CoreShare | None = Field(None, description="CPU used by other processes, as a share of one core")


UNSEEN = 0.001
"""The share of a device's packets or bytes that may be unseen in a valid round, where a file does not say."""


class RoundLimits(NoiseLimits):
    """What makes a round invalid: noise, and packets that the collector of packet sizes did not see."""

    unseen: Share = Field(UNSEEN, ge=0, lt=1)


class Protocol(Model):
    """How many rounds, in which order, and when it is enough."""

    rounds: int = Field(6, ge=1, le=100_000, description="the least number of valid rounds a state")
    target: Share | None = Field(
        None, gt=0, lt=1, description="go on until each compared effect's 95% interval is within +- this"
    )
    cap: int = Field(84, ge=1, le=100_000, description="the largest number of rounds a state, with a target")
    warmup: int = Field(1, ge=0, description="rounds before the first that counts")
    retries: int = Field(5, ge=0, description="how often an invalid round is run again")
    seed: int | None = Field(
        None, ge=0, description="of the order; a fresh one is drawn and recorded when absent"
    )
    noise: NoiseLimits = Field(default_factory=NoiseLimits)
    unseen: Share = Field(
        UNSEEN,
        ge=0,
        lt=1,
        description="the largest share of a device's packets or bytes that may be missing from the packet "
        "sizes of a valid round; 0: none",
    )
    quiet_wait: Seconds = Field(
        60, ge=0, description="time to wait at most, before the first round, for noise below its limits"
    )

    @property
    def limits(self) -> RoundLimits:
        """The limits of a valid round."""
        return RoundLimits(**self.noise.model_dump(), unseen=self.unseen)

    @model_validator(mode="after")
    def _cap_beyond_rounds(self) -> Protocol:
        if "cap" in self.model_fields_set and self.target is not None and self.cap < self.rounds:
            raise mistake(f"cap {self.cap} is less than rounds {self.rounds}", "cap")
        return self


class Experiment(Variation):
    """An experiment file."""

    description: str = ""
    parameters: dict[str, int | float | str] = Field(
        default_factory=dict, description="name -> value; `$name` stands for it anywhere in the file"
    )
    states: dict[StateName, State] = Field(default_factory=dict)
    matrix: Matrix | None = None
    compare: list[Pair] = Field(
        default_factory=list, description="pairs of states; by default the first state with each other one"
    )
    protocol: Protocol = Field(default_factory=Protocol)
    collect: CollectSpec = Field(default_factory=CollectSpec)
    expect: list[dict[str, Any]] = Field(default_factory=list)
    overrides: Variation = Field(
        default_factory=Variation, description="from the command line; wins over every state"
    )

    @model_validator(mode="after")
    def _whole(self) -> Experiment:
        if self.topology is None:
            raise mistake("the key 'topology' is missing: name a topology")
        names = self.variations()
        for name in names:
            try:
                word(name)  # a matrix joins several
            except ValueError as error:
                raise mistake(str(error), "matrix") from None
        for index, pair in enumerate(self.compare):
            for name in pair:
                if name not in names:
                    raise mistake(
                        f"'{name}' is not a state; the states are {', '.join(names)}", "compare", index
                    )
        for index, entry in enumerate(self.expect):
            try:
                parse([entry], list(names))
            except ValueError as error:
                raise mistake(str(error), "expect", index) from None
        return self

    def variations(self) -> dict[str, list[Variation]]:
        """State name -> the variations that make it, weakest first."""
        states: dict[str, list[Variation]] = self.matrix.states() if self.matrix else {}
        for name, state in self.states.items():
            states[name] = [*states.get(name, []), state]
        if not states:
            states["default"] = []
        return {name: [self, *steps, self.overrides] for name, steps in states.items()}

    def comparisons(self) -> list[tuple[str, str]]:
        """The pairs of states to compare."""
        first, *others = self.variations()
        return self.compare or [(first, other) for other in others]
