"""flows: several flows at once, of any tool and between any nodes, with one start and one end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.errors import InputError, MissingCapability
from testbed.lab.lab import Lab
from testbed.records.round import FlowFigures, Workload
from testbed.workloads import iperf3, netperf, zerocopy
from testbed.workloads.flow import FlowTool, Wanted, require, run_flows
from testbed.workloads.tool import Hooks, Options, Outcome
from testbed.yamlfile import mistake, validate_value

TOOLS: dict[str, FlowTool[Any]] = {
    "iperf3": iperf3.TOOL,
    "netperf": netperf.TOOL,
    "zerocopy": zerocopy.TOOL,
}

_PORT_STEP = 10  # between two flows' ports, so that a flow's parallel streams have theirs


class FlowSpec(BaseModel):
    """One flow, or `count` equal ones, each on its own ports. Other keys are options of its tool."""

    model_config = ConfigDict(extra="allow", frozen=True)

    tool: Literal["iperf3", "netperf", "zerocopy"]
    count: int = Field(1, ge=1, le=64)
    background: bool = Field(False, description="load that the others are measured beside")


class FlowsOptions(Options):
    """Flows side by side, all with the same `duration` and `omit`.

    A flow that does not say otherwise takes `from`, `to`, `family` and `timeout` from here.
    """

    tool: Literal["flows"] = "flows"
    flows: list[FlowSpec] = Field(min_length=1)

    @model_validator(mode="after")
    def _sound(self) -> FlowsOptions:
        if all(spec.background for spec in self.flows):
            raise mistake("every flow is background: none would be measured", "flows")
        for index, _ in enumerate(self.flows):
            try:
                list(self._parsed(index))
            except InputError as error:
                raise mistake(str(error).removeprefix(f"flows.{index}."), "flows", index) from None
        return self

    @property
    def tools(self) -> frozenset[str]:
        """Those of its flows."""
        return frozenset(spec.tool for spec in self.flows)

    @property
    def nodes(self) -> frozenset[str]:
        """Its own and those of its flows."""
        return super().nodes.union(*(options.nodes for _, options in self.parsed()))

    @property
    def huge_pages(self) -> int:
        return sum(options.huge_pages for _, options in self.parsed())

    @property
    def crosses(self) -> bool:
        """Whether each flow's does."""
        return all(options.crosses for _, options in self.parsed())

    def parsed(self) -> list[tuple[FlowSpec, Options]]:
        """Each flow with its tool's options, on its own ports."""
        return [found for index in range(len(self.flows)) for found in self._parsed(index)]

    def _parsed(self, index: int) -> Iterator[tuple[FlowSpec, Options]]:
        spec = self.flows[index]
        before = sum(earlier.count for earlier in self.flows[:index])
        model = TOOLS[spec.tool].options
        common = self.model_dump(by_alias=True, include={"from_", "to", "family", "timeout"})
        # netperf has no warm-up: it starts when the others' warm-up seconds are over, and ends with them.
        times = {"duration": self.duration, "omit": 0.0 if spec.tool == "netperf" else self.omit}
        given = {**common, **times, "tool": spec.tool, **(spec.model_extra or {})}
        for number in range(before, before + spec.count):
            options = validate_value(f"flows.{index}", given, model)
            yield spec, options.model_copy(update=_own_ports(options, number))


def _own_ports(options: Options, number: int) -> dict[str, int]:
    """The ports of flow `number`: those of its options, moved on."""
    ports = {name: getattr(options, name, None) for name in ("port", "client_port", "control_port")}
    return {name: port + number * _PORT_STEP for name, port in ports.items() if port}


class Flows:
    """See workloads/tool.py: Tool."""

    name = "flows"
    options: type[Options] = FlowsOptions

    def version(self) -> str:
        """The versions of the tools that are installed. A flow of one that is not says so when it is run."""
        found = []
        for name, tool in TOOLS.items():
            with suppress(MissingCapability):
                found.append(f"{name} {tool.version()}")
        return ", ".join(found)

    def require(self, options: FlowsOptions) -> None:
        """MissingCapability where this machine lacks something that the flows together need."""
        require(_wanted(options.parsed()))

    def run(
        self,
        lab: Lab,
        options: FlowsOptions,
        *,
        cpus: Mapping[str, Collection[int]],
        hooks: Hooks,
        raw: Path,
        raw_name: str,
    ) -> Outcome:
        """All flows, between one start and one end; invalid when one of them failed."""
        parsed = options.parsed()
        outcomes = run_flows(lab, _wanted(parsed), cpus=cpus, hooks=hooks, raw=raw, raw_name=raw_name)
        workload = aggregate(list(zip(parsed, outcomes, strict=True)))
        reasons = [f"flow {number}: {one.reason}" for number, one in enumerate(outcomes) if one.reason]
        measured = [one for (spec, _), one in zip(parsed, outcomes, strict=True) if not spec.background]
        return Outcome(
            workload=workload,
            reason="; ".join(reasons) or None,
            measured_s=max(one.measured_s for one in measured),
            resolution_s=max(one.resolution_s for one in outcomes),
            arrived=_by_node(one.arrived for one in outcomes),
            least_packets=_by_node(one.least_packets for one in outcomes),
            counts_from=min((one.counts_from for one in outcomes if one.counts_from), default=None),
            processes={
                f"{role}-{n}": use for n, one in enumerate(outcomes) for role, use in one.processes.items()
            },
            pids={f"{role}-{n}": pid for n, one in enumerate(outcomes) for role, pid in one.pids.items()},
        )


def _wanted(parsed: Sequence[tuple[FlowSpec, Options]]) -> Wanted:
    return [(TOOLS[options.tool], options) for _, options in parsed]


def aggregate(flows: Sequence[tuple[tuple[FlowSpec, Options], Outcome]]) -> Workload:
    """The flows as one workload: sums of those that are measured, and the figures of each."""
    measured = [outcome.workload for (spec, _), outcome in flows if not spec.background]
    rates = [workload.bits_per_second for workload in measured if workload.bits_per_second is not None]
    latencies = [workload.latency_us for workload in measured if workload.latency_us]
    return Workload(
        tool="flows",
        client_argv=[" ".join(outcome.workload.client_argv) for _, outcome in flows],
        server_argv=[" ".join(outcome.workload.server_argv) for _, outcome in flows],
        version=", ".join(sorted({f"{one.workload.tool} {one.workload.version}" for _, one in flows})),
        bits_per_second=sum(rates) if len(rates) == len(measured) else None,
        bytes=_sum([workload.bytes for workload in measured]),
        retransmits=_sum([workload.retransmits for workload in measured]),
        transactions_per_second=_sum([workload.transactions_per_second for workload in measured]),
        congestion=_same([workload.congestion for workload in measured]),
        tuple=measured[0].tuple,
        latency_us=latencies[0] if len(latencies) == 1 else {},
        flows=[_figures(*one) for one in flows],
        fairness=jain(rates) if len(rates) > 1 else None,
        raw=[name for _, outcome in flows for name in outcome.workload.raw],
    )


def jain(rates: Sequence[float]) -> float | None:
    """Jain's fairness index, from 1/n (one has all) to 1 (all have the same)."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else None


def _figures(parsed: tuple[FlowSpec, Options], outcome: Outcome) -> FlowFigures:
    spec, options = parsed
    workload = outcome.workload
    return FlowFigures(
        tool=workload.tool,
        source=options.from_,
        destination=options.to,
        background=spec.background,
        bits_per_second=workload.bits_per_second,
        retransmits=workload.retransmits,
        latency_us=workload.latency_us,
        tuple=workload.tuple,
    )


def _by_node(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Node -> the sum of what the flows have for it."""
    return dict(sum(map(Counter, counts), Counter[str]()))


def _sum(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _same(values: Sequence[str | None]) -> str | None:
    return values[0] if len(set(values)) == 1 else None
