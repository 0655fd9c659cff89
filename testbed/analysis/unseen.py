"""What packets that the collector did not see leave open: the range in which a round's true figure lies.

The counters say how many packets and bytes of a side were not seen, and nobody knows of which sizes. So of
n packets seen and k unseen at least n and at most n + k were of a given size, and no more than their
bytes have room for (the device may count packets without their Ethernet header). A claim that holds at
both ends of the range holds, one that fails at both fails, and any other is not decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from testbed.analysis.metric_key import Side
from testbed.evidence.counters import SMALLEST_PACKET
from testbed.headers import ETHERNET_HEADER
from testbed.records.round import Round


class Range(NamedTuple):
    """Where a figure lies: both ends included, and both the same where it is known."""

    low: float
    high: float


class Missed(NamedTuple):
    """Packets and bytes of one side that were not seen in one round, and their share (0 to 1)."""

    packets: int
    bytes: int
    share: float


@dataclass
class UnseenLog:
    """Side -> index of a valid round -> what was not seen in it."""

    sides: dict[str, dict[int, Missed]] = field(default_factory=dict)

    def add(self, index: int, record: Round) -> None:
        for side, one in record.packet_sizes_meta.unseen.items():
            if one.packets or one.bytes:
                self.sides.setdefault(side, {})[index] = Missed(one.packets, one.bytes, one.share)

    def at(self, side: Side) -> dict[int, Missed]:
        return self.sides.get(str(side), {})

    def rounds(self) -> int:
        """How many rounds have unseen packets anywhere."""
        return len(set().union(*self.sides.values())) if self.sides else 0

    def largest(self) -> tuple[str, float] | None:
        """The side with the largest share in a round, and that share."""
        shares = {side: max(one.share for one in held.values()) for side, held in self.sides.items()}
        return max(shares.items(), key=lambda one: one[1]) if shares else None


def ranges(what: str | int, seen: Sequence[tuple[int, float]], missed: dict[int, Missed]) -> Iterator[Range]:
    """The range of a side's figure in each round. seen: (index of the round, value as it was seen)."""
    for index, value in seen:
        if (one := missed.get(index)) is None:
            yield Range(value, value)
        elif isinstance(what, int):
            yield Range(value, value + min(one.packets, one.bytes // max(1, what - ETHERNET_HEADER)))
        elif what == "packets":
            yield Range(value, value + one.packets)
        elif what == "bytes":
            yield Range(value, value + one.bytes)
        elif what == "largest_size":
            others = (one.packets - 1) * SMALLEST_PACKET
            yield Range(value, max(value, one.bytes - others + ETHERNET_HEADER))
        else:  # a mean or quantile, which a few packets move either way
            yield Range(-math.inf, math.inf)


def holds(relation: Callable[[float, float], bool], name: str, where: Range, bound: float) -> bool | None:
    """Whether a figure somewhere in the range stands in `relation` (called `name`) to `bound`."""
    inside = where.low <= bound <= where.high
    if name in ("==", "!=") and inside and where.low < where.high:
        return None
    ends = {relation(end, bound) for end in where}
    return ends.pop() if len(ends) == 1 else None


def all_of(found: Sequence[bool | None]) -> bool | None:
    """False where one is, else None where one is, else True."""
    return False if False in found else None if None in found else True
