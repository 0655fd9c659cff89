"""iperf3, through the `iperf3` binding and the libiperf below it."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from testbed import available
from testbed.errors import MissingCapability
from testbed.lab.lab import Lab
from testbed.records.round import Workload
from testbed.unit_fields import BitRate, Bytes, Microseconds, Port, Seconds
from testbed.workloads import iperf3_worker
from testbed.workloads.argument_types import Congestion, DeviceName
from testbed.workloads.arguments import check_arguments
from testbed.workloads.flow import Flow, FlowTool
from testbed.workloads.iperf3_arguments import CLIENT, SERVER
from testbed.workloads.iperf3_result import read
from testbed.workloads.tool import Options
from testbed.yamlfile import mistake

_LENGTH = 128 << 10  # bytes of a write over TCP, where none are asked for (DEFAULT_TCP_BLKSIZE)
# What the worker and this module call beside what the binding does.
_FUNCTIONS = (
    "iperf_get_iperf_version",
    "iperf_on_test_start",
    "iperf_parse_arguments",
    "iperf_run_client",
    "iperf_run_server",
    "iperf_strerror",
)


class Iperf3Options(Options):
    """One iperf3 test. What is not given is libiperf's default; `args` holds its other options."""

    tool: Literal["iperf3"] = "iperf3"
    port: Port = Field(5201, description="the server's port (-p)")
    client_port: Port | None = Field(
        40001, description="the client's port (--cport), the next ones for further streams; null for any"
    )
    length: Annotated[Bytes, Field(ge=1, le=1 << 20)] | None = Field(
        None, description="bytes of one write (-l); 500K is 512000"
    )
    streams: int = Field(1, ge=1, le=128, description="parallel streams (-P)")
    reverse: bool = Field(False, description="the server sends (-R)")
    bidir: bool = Field(False, description="both send (--bidir)")
    udp: bool = Field(False, description="UDP instead of TCP (-u)")
    bitrate: BitRate | None = Field(
        None, description="target bits per second of a stream (-b), 0 for no limit"
    )
    pacing_timer: Annotated[Microseconds, Field(ge=1, le=10**9)] | None = Field(
        None, description="(--pacing-timer)"
    )
    fq_rate: BitRate | None = Field(None, description="bits per second for fair queueing (--fq-rate)")
    window: Bytes | None = Field(None, description="bytes of socket buffer (-w)")
    congestion: Congestion | None = Field("cubic", description="congestion control (-C); TCP only")
    mss: int | None = Field(None, ge=88, le=9216, description="bytes (-M)")
    nodelay: bool = Field(False, description="TCP_NODELAY (-N)")
    zerocopy: bool = Field(False, description="send with sendfile() (-Z)")
    bind_device: DeviceName | None = Field(None, description="the client's device (--bind-dev)")
    tos: int | None = Field(None, ge=0, le=255, description="IPv4 TOS or IPv6 traffic class (-S)")
    interval: Annotated[Seconds, Field(ge=0, le=86_400)] | None = Field(
        None, description="time between the JSON's intervals (-i)"
    )
    args: list[str] = Field(
        default_factory=list, description="further options of the client (workloads/iperf3_arguments.py)"
    )
    server_args: list[str] = Field(default_factory=list, description="further options of the server")

    @property
    def tcp_congestion(self) -> str | None:
        return None if self.udp else self.congestion

    @model_validator(mode="after")
    def _consistent(self) -> Iperf3Options:
        for name in ("duration", "omit"):
            value = getattr(self, name)
            if value != int(value):
                raise mistake(f"iperf3 takes whole seconds, got {value:g}", name)
        if self.reverse and self.bidir:
            raise mistake("reverse and bidir exclude each other", "bidir")
        check_arguments(CLIENT, "args", self.args)
        check_arguments(SERVER, "server_args", self.server_args)
        return self

    @property
    def ports(self) -> frozenset[int]:
        """The server's, and one for each stream and direction of the client."""
        streams = range(self.streams * (2 if self.bidir else 1))
        first = self.client_port or 1 << 16
        return frozenset({self.port, *(first + number for number in streams if first + number < 1 << 16)})


def client_options(options: Iperf3Options, address: str) -> list[str]:
    """The client's command line, without the command."""
    named = {
        "-c": address,
        "-p": options.port,
        "--cport": options.client_port,
        "-t": int(options.duration),
        "-O": int(options.omit) or None,
        "-l": options.length,
        "-P": options.streams if options.streams > 1 else None,
        "-b": options.bitrate,
        "--pacing-timer": options.pacing_timer,
        "--fq-rate": options.fq_rate,
        "-w": options.window,
        "-C": options.tcp_congestion,
        "-M": options.mss,
        "--bind-dev": options.bind_device,
        "-S": options.tos,
        "-i": options.interval,
    }
    flags = {
        f"-{options.family}": True,
        "-R": options.reverse,
        "--bidir": options.bidir,
        "-u": options.udp,
        "-N": options.nodelay,
        "-Z": options.zerocopy,
        "-J": True,
    }
    given = [word for name, value in named.items() if value is not None for word in (name, f"{value}")]
    return [*given, *(name for name, wanted in flags.items() if wanted), *options.args]


def server_options(options: Iperf3Options) -> list[str]:
    """The server's command line, without the command. It serves one test."""
    return ["-s", "-1", "-p", str(options.port), f"-{options.family}", "-J", *options.server_args]


def version() -> str:
    """libiperf's version. MissingCapability where it does not load."""
    if not _binding_folder():
        raise MissingCapability("iperf3: its Python binding is not installed (pip install iperf3)")
    library = available.library(iperf3_worker.LIBRARY, _FUNCTIONS, "apt-get install libiperf0")
    library.iperf_get_iperf_version.restype = ctypes.c_char_p
    return str(library.iperf_get_iperf_version().decode())


def flow(lab: Lab, options: Iperf3Options, address: str) -> Flow:
    """What to start for `options`, and how to read what it prints."""
    client, server = client_options(options, address), server_options(options)
    workload = Workload(
        tool="iperf3",
        client_argv=["iperf3", *client],
        server_argv=["iperf3", *server],
        congestion=options.tcp_congestion,
    )
    return Flow(
        options=options,
        workload=workload,
        client=_worker(client),
        server=_worker(server),
        port=options.port,
        read=read,
        suffix="json",
    )


def needs(options: Iperf3Options) -> AbstractContextManager[None]:
    """Where libiperf puts a stream's buffer: a file, in the folder that iperf_new_stream() chooses."""
    names = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    folder = next((name for name in names if name is not None), "/tmp")
    available.writable(Path(folder or "/"), options.length or _LENGTH, "iperf3: the buffers of its streams")
    return nullcontext()


def _worker(options: list[str]) -> list[str]:
    # Isolated and without site-packages, which saves half of the start; the binding's folder goes along.
    return [sys.executable, "-I", "-S", str(Path(iperf3_worker.__file__)), _binding_folder(), *options]


def _binding_folder() -> str:
    """The folder that holds the package `iperf3`; empty where there is none."""
    found = find_spec("iperf3")
    return str(Path(found.origin).parents[1]) if found and found.origin else ""


TOOL = FlowTool(name="iperf3", options=Iperf3Options, version=version, flow=flow, needs=needs)
