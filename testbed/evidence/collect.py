"""The `collect:` section of an experiment file."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from testbed.units import parse_bytes

_CONDITION = re.compile(r"size\s*(>=|<=|>|<|==)\s*(\d+[KMG]?)")


def parse_condition(text: str) -> tuple[str, int]:
    """Operator and bytes of `size > 65536`. ValueError for anything else."""
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected a condition such as 'size > 65536', got {text!r}")
    return match[1], parse_bytes(match[2])


def _checked(text: str) -> str:
    parse_condition(text)
    return text


Condition = Annotated[str, AfterValidator(_checked)]
CollectorName = Literal["auto", "bpf", "af_packet", "none"]


class CollectSpec(BaseModel):
    """Evidence beside the workload's own figures. The defaults suit most experiments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    collector: CollectorName = Field(
        "auto", description="source of packet sizes: auto takes bpf, or af_packet where BPF cannot run"
    )
    devices: list[str] = Field(
        default=["*:*"], description="node:device patterns of the devices whose packet sizes are recorded"
    )
    cpu: bool = Field(True, description="per-core CPU over the measured seconds")
    tcp: bool = Field(True, description="TCP_INFO of the flow, sampled while it runs")
    queues: bool = Field(True, description="backlog and drops of root qdiscs, sampled while it runs")
    stack: bool = Field(True, description="counters of the protocols and of softnet that moved")
    kernel_log: bool = Field(True, description="what the kernel logged; a fault makes the round invalid")
    noise: bool = Field(True, description="what else the machine did")
    stacks: Condition | None = Field(
        None, description="kernel stacks of the packets that fit, such as `size > 65536` (perf)"
    )
    profile: bool = Field(False, description="where the CPU time went, by function (perf)")
