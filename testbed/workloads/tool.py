"""The interface of a workload tool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from testbed.lab.lab import Lab
from testbed.records.round import ProcessUse, Workload
from testbed.unit_fields import Seconds
from testbed.workloads.argument_types import Address


class Options(BaseModel):
    """Options every workload has; a tool's own model adds its own. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    tool: str
    from_: str = Field(alias="from", description="the node that runs the client")
    to: str = Field(description="the node that runs the server")
    family: Literal[4, 6] = 6
    address: Address | None = Field(
        None, description="where the client connects to; the first address of `to` when absent"
    )
    duration: Seconds = Field(10.0, gt=0, le=86_400, description="measured time, after the warm-up")
    omit: Seconds = Field(
        0.0, ge=0, le=86_400, description="warm-up time at the start, excluded from the result"
    )
    timeout: Seconds = Field(
        10.0, gt=0, le=86_400, description="time beyond omit and duration after which the test is given up"
    )

    @property
    def tcp_congestion(self) -> str | None:
        """The congestion control that a flow over TCP is to have; None for the kernel's choice."""
        return None

    @property
    def tools(self) -> frozenset[str]:
        """The names of the tools that have to be there."""
        return frozenset({self.tool})

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes that a client or a server runs in."""
        return frozenset({self.from_, self.to})

    @property
    def huge_pages(self) -> int:
        """How many huge pages of the machine it reserves for a round."""
        return 0

    @property
    def crosses(self) -> bool:
        """Whether all that it sends goes from one node to another."""
        return self.from_ != self.to

    @property
    def ports(self) -> frozenset[int]:
        """The ports that its client and its server bind by number."""
        return frozenset()


@dataclass(frozen=True)
class Hooks:
    """Callbacks at the moments that collectors need. Called from the workload's thread.

    `measuring`, at most once: what follows counts. `over`: what follows does not; where
    this is seen only afterwards it is called again and again, and the last call counts.
    """

    measuring: Callable[[], None]
    over: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Outcome:
    """The result of a workload. `reason` is None on success, else one line with the tool's message.

    `resolution_s`: by how much `measured_s` may be off. `arrived`: node -> payload
    bytes that its tools received in the seconds that count, from other nodes.
    `least_packets`: node -> packets that they must have received for the figures to be true.
    `counts_from`: when the seconds that count began at the earliest (time.monotonic()).
    """

    workload: Workload
    reason: str | None = None
    measured_s: float = 0.0
    resolution_s: float = 0.0
    arrived: dict[str, int] = field(default_factory=dict)
    least_packets: dict[str, int] = field(default_factory=dict)
    counts_from: float | None = None
    processes: dict[str, ProcessUse] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)


OptionsT = TypeVar("OptionsT", bound=Options, contravariant=True)


class Tool(Protocol[OptionsT]):
    """Runs one measurement in a lab. Whatever fails in it is an Outcome, never an exception."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> type[Options]: ...

    def require(self, options: OptionsT) -> None:
        """MissingCapability where this machine lacks something that `options` need."""
        ...

    def run(
        self,
        lab: Lab,
        options: OptionsT,
        *,
        cpus: Mapping[str, Collection[int]],
        hooks: Hooks,
        raw: Path,
        raw_name: str,
    ) -> Outcome:
        """Run it once. `cpus` maps node -> CPUs; raw output goes to files `raw / f"{raw_name}-..."`."""
        ...

    def version(self) -> str:
        """The tool's version; MissingCapability, with how to get it, where it is not installed."""
        ...
