"""kperf: a client that orchestrates a flow between two kperf servers, from device memory where requested."""

from __future__ import annotations

import os
import shutil
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, model_validator

from testbed.available import output_of
from testbed.errors import MissingCapability
from testbed.lab.lab import Lab
from testbed.records.round import Workload
from testbed.unit_fields import Bytes, Port
from testbed.workloads.argument_types import Congestion
from testbed.workloads.arguments import check_arguments
from testbed.workloads.flow import Flow, FlowTool, source_address, wait_for_start
from testbed.workloads.kperf_arguments import CLIENT as CLIENT_ARGUMENTS
from testbed.workloads.kperf_result import read
from testbed.workloads.tool import Options
from testbed.yamlfile import mistake

CLIENT, SERVER = "kperf-client", "kperf-server"
_HOW_TO_GET = (
    "build kperf from source (no distribution has it), and put its programs client and server "
    f"into PATH as {CLIENT} and {SERVER}"
)


class KperfOptions(Options):
    """One kperf test of one flow or several. What is not given is kperf's default."""

    tool: Literal["kperf"] = "kperf"
    port: Port = Field(18323, description="where both servers listen (--src-svc, --dst-svc)")
    devmem_tx: bool = Field(False, description="send from device memory (--devmem-tx)")
    tx_memory: Annotated[int, Field(ge=1, le=1 << 20)] | None = Field(
        None, description="MiB of the sender's dmabuf (--dmabuf-tx-size-mb)"
    )
    zerocopy: bool = Field(False, description="send with MSG_ZEROCOPY (--msg-zerocopy)")
    length: Annotated[Bytes, Field(ge=1)] | None = Field(None, description="bytes of a write (--write-size)")
    receive_length: Annotated[Bytes, Field(ge=1)] | None = Field(
        None, description="bytes of a read (--read-size)"
    )
    streams: int = Field(1, ge=1, le=1024, description="connections (-n)")
    pin_offset: int = Field(
        0, ge=0, le=65_535, description="CPUs from the one that serves a flow to its worker's (--pin-off)"
    )
    congestion: Congestion | None = Field("cubic", description="congestion control (--tcp-cc)")
    args: list[str] = Field(default_factory=list, description="further options of the client")

    @property
    def tcp_congestion(self) -> str | None:
        return self.congestion

    @model_validator(mode="after")
    def _consistent(self) -> KperfOptions:
        if self.omit:
            raise mistake("kperf counts from its first byte: omit must be 0", "omit")
        if self.duration != int(self.duration):
            raise mistake(f"kperf takes whole seconds, got {self.duration:g}", "duration")
        check_arguments(CLIENT_ARGUMENTS, "args", self.args)
        return self

    @property
    def ports(self) -> frozenset[int]:
        return frozenset({self.port})


def client_options(options: KperfOptions, source: str, target: str) -> list[str]:
    """The client's command line, without the command."""
    named = {
        "--src": source,
        "--dst": target,
        "--src-svc": options.port,
        "--dst-svc": options.port,
        "--time": int(options.duration),
        "--num-connections": options.streams,
        "--tcp-cc": options.congestion,
        "--write-size": options.length,
        "--read-size": options.receive_length,
        "--pin-off": options.pin_offset or None,
        "--dmabuf-tx-size-mb": options.tx_memory,
    }
    flags = {"--devmem-tx": options.devmem_tx, "--msg-zerocopy": options.zerocopy}
    given = [word for name, value in named.items() if value is not None for word in (name, f"{value}")]
    return [*given, *(name for name, wanted in flags.items() if wanted), *options.args]


def version() -> str:
    """kperf has no version. MissingCapability where its programs are not in PATH, or do not run."""
    missing = [program for program in (CLIENT, SERVER) if shutil.which(program) is None]
    if missing:
        raise MissingCapability(f"kperf: {' and '.join(missing)} not in PATH ({_HOW_TO_GET})")
    _try_programs(os.environ.get("PATH", ""))
    return "unversioned"


@cache
def _try_programs(path: str) -> None:
    for program in (CLIENT, SERVER):
        output_of([program, "--help"], _HOW_TO_GET)


def flow(lab: Lab, options: KperfOptions, address: str) -> Flow:
    """What to start for `options`, and how to read what it prints: a server in each of the two nodes."""
    client = [CLIENT, *client_options(options, source_address(lab, options, address), address)]
    server = [SERVER, "--no-daemon", "--port", str(options.port)]
    return Flow(
        options=options,
        workload=Workload(
            tool="kperf", client_argv=client, server_argv=server, congestion=options.congestion
        ),
        client=wait_for_start(client, join_stderr=True),
        server=server,
        extra=server,
        port=options.port,
        read=lambda known, output, _: read(known, output),
        own_warmup=False,
        serves_on=True,
    )


TOOL = FlowTool(name="kperf", options=KperfOptions, version=version, flow=flow)
