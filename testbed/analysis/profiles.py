"""Which functions differ most in CPU time between compared states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from testbed.analysis.columns import StateRounds
from testbed.analysis.evidence_sums import differing
from testbed.analysis.frozen import FrozenModel


class FunctionShare(FrozenModel):
    function: str
    a: float = Field(description="percent of the busy CPU time in state a")
    b: float


class ProfileData(FrozenModel):
    """The functions whose share of the CPU time differs most between two compared states."""

    a: str
    b: str
    functions: list[FunctionShare]


def profiles(states: Mapping[str, StateRounds], pairs: Sequence[tuple[str, str]]) -> Iterator[ProfileData]:
    """Of each compared pair where both states have a profile."""
    for a, b in pairs:
        before, after = states[a].evidence.profile(), states[b].evidence.profile()
        if before and after:
            found = differing(before, after)
            yield ProfileData(a=a, b=b, functions=[FunctionShare(**one._asdict()) for one in found])
