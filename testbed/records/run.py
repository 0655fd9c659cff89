"""The record of a run: run.json.

Names are fixed once released; fields may be added. Unknown fields of a later version are kept when
it is written again (lines of rounds.jsonl never are), so that an old program does not lose them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1


class Record(BaseModel):
    """run.json, or a part of it."""

    model_config = ConfigDict(extra="allow")


class Patch(Record):
    sha256: str
    subject: str


class Kernel(Record):
    release: str
    version: str
    config_sha256: str | None = Field(None, description="of its options, sorted: NAME=VALUE, a line each")
    cmdline: str = ""
    series: list[Patch] = Field(default_factory=list)
    build_id: str | None = Field(None, description="the GNU build id of its image")
    build_key: str | None = Field(
        None, description="hash of tree, config, compiler and arguments, of one that `kernel build` made"
    )
    accelerator: str | None = Field(
        None, description="what a VM of the run ran it with (kvm, tcg); None on the machine itself"
    )


class Machine(Record):
    cpu_model: str = ""
    cores: int = 0
    memory_bytes: int = 0
    virtualisation: str | None = None
    governor: str | None = None
    smt: bool | None = None


Status = Literal["running", "complete", "interrupted", "failed"]


class Run(Record):
    """run.json: rewritten atomically when the run starts, changes its status, and ends."""

    schema_: int = Field(SCHEMA, alias="schema", serialization_alias="schema")
    run_id: str
    experiment: dict[str, Any] = Field(description="the resolved experiment")
    topology: dict[str, Any] = Field(description="the resolved topology")
    status: Status
    started: str
    finished: str | None = None
    seed: int
    argv: list[str] = Field(default_factory=list)
    machine: Machine = Field(default_factory=Machine)
    kernels: dict[str, Kernel] = Field(default_factory=dict)
    boots: int = Field(1, ge=1, le=10_000, description="of each kernel, where the run boots kernels")
    tools: dict[str, str] = Field(default_factory=dict)
    states: dict[str, dict[str, Any]] = Field(default_factory=dict, description="name -> the resolved state")
    skipped: dict[str, str] = Field(default_factory=dict, description="state -> why it was not run")


def state_label(state: str, kernel: str, kernels: int) -> str:
    """What a run and its reports call a state: `state@kernel` where the run has several `kernels`."""
    return f"{state}@{kernel}" if kernels > 1 else state
