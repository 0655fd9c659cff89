"""How sure a state's figures are: what each valid round was held against, summed up."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from pydantic import Field

from testbed.analysis.frozen import FrozenModel
from testbed.analysis.unseen import UnseenLog
from testbed.records.round import Round

# Kernel threads are what no process accounts for; more than a tenth of the time is worth a look.
LEAST_ACCOUNTED = 0.9


class UnseenData(FrozenModel):
    rounds: int = Field(description="valid rounds with packets that the collector did not see")
    share: float = Field(description="the largest share of a side's packets or bytes in a round, 0 to 1")
    side: str = Field(description="`NODE:DEVICE rx`: where that was")


class AccountedData(FrozenModel):
    """Percent of the cores' time that is known to be somebody's."""

    least: float
    median: float
    most: float


class SurenessData(FrozenModel):
    """What a state's figures were held against. null where no round knows it."""

    valid: int
    run_again: dict[str, int] = Field(description="why rounds did not count -> how many; they were run again")
    unseen: UnseenData | None = Field(description="null where every packet was seen, or none was looked for")
    clock_steps: int = Field(description="rounds in which somebody set the wall clock")
    tool_over_devices: float | None = Field(
        description="the largest ratio of the bytes that arrived by the tool to those that its node's "
        "devices received: with headers below 1, after warm-up seconds within what their end is off by"
    )
    sockets_over_tool: float | None = Field(
        description="the largest ratio of the bytes acknowledged to the senders' sockets to those that "
        "arrived by the tool: about 1"
    )
    cpu_accounted: AccountedData | None

    @property
    def agrees(self) -> bool:
        """Whether there is nothing that a reader should know."""
        accounted = self.cpu_accounted is None or self.cpu_accounted.least >= 100 * LEAST_ACCOUNTED
        return accounted and not (self.run_again or self.unseen or self.clock_steps)


@dataclass
class Sureness:
    """Gathers it from a state's valid rounds."""

    unseen: UnseenLog = field(default_factory=UnseenLog)
    clock_steps: int = 0
    tool_over_devices: float | None = None
    sockets_over_tool: float | None = None
    accounted: array[float] = field(default_factory=lambda: array("d"))

    def add(self, index: int, record: Round) -> None:
        """`index`: the round's among the valid ones."""
        self.unseen.add(index, record)
        self.clock_steps += bool(record.clock_steps)
        if record.cpu and record.cpu.accounted is not None:
            self.accounted.append(100 * record.cpu.accounted)
        if (found := record.agreement) is not None:
            self.tool_over_devices = _larger(self.tool_over_devices, found.tool_over_devices)
            self.sockets_over_tool = _larger(self.sockets_over_tool, found.sockets_over_tool)

    def data(self, valid: int, invalid: Sequence[Round]) -> SurenessData:
        """With the number of valid rounds, and those that are not."""
        largest = self.unseen.largest()
        return SurenessData(
            valid=valid,
            run_again=dict(Counter(kind_of(one.reason) for one in invalid).most_common()),
            unseen=UnseenData(rounds=self.unseen.rounds(), side=largest[0], share=largest[1])
            if largest
            else None,
            clock_steps=self.clock_steps,
            tool_over_devices=self.tool_over_devices,
            sockets_over_tool=self.sockets_over_tool,
            cpu_accounted=AccountedData(
                least=min(self.accounted), median=median(self.accounted), most=max(self.accounted)
            )
            if self.accounted
            else None,
        )


def kind_of(reason: str | None) -> str:
    """A reason up to its first figure, so that the same cause counts as one: `noise: steal`."""
    words = re.split(r"[;\d(]", reason or "", maxsplit=1)[0]
    return words.rstrip(" ,:-") or (reason or "no reason recorded")[:60]


def _larger(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else max(a, b)
