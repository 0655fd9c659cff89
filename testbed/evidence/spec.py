"""What an experiment asks to collect: the `collect:` section of its file."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

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
    stack: bool = Field(True, description="counters of the protocols and of softnet that moved")
    kernel_log: bool = Field(True, description="what the kernel logged; a fault makes the round invalid")
    noise: bool = Field(True, description="what else the machine did")
    stacks: str | None = Field(
        None, description="kernel stacks of the packets that fit, such as `size > 65536` (perf)"
    )
    profile: bool = Field(False, description="where the CPU time went, by function (perf)")
