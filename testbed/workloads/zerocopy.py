"""zerocopy: a sender with MSG_ZEROCOPY from pages of a chosen size, and a receiver that only receives.

It asks what the layout of the pages does to the frags of a packet and to the
sender's CPU, without hardware for device memory.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Literal

from msgspec import structs
from pydantic import Field

from testbed.errors import MissingCapability
from testbed.lab.lab import Lab
from testbed.records.round import Tuple, Workload, Zerocopy
from testbed.unit_fields import Bytes, Port
from testbed.workloads import hugepages_keeper, zerocopy_worker
from testbed.workloads.argument_types import Congestion
from testbed.workloads.flow import Flow, FlowTool, Reading, json_object
from testbed.workloads.tool import Options


class ZerocopyOptions(Options):
    """One flow from the client's pages."""

    tool: Literal["zerocopy"] = "zerocopy"
    pages: Literal["ordinary", "huge"] = Field("ordinary", description="4 KB pages, or huge pages of 2 MB")
    zerocopy: bool = Field(True, description="send with MSG_ZEROCOPY; false copies, for comparison")
    length: Annotated[Bytes, Field(ge=1, le=64 << 20)] = Field(1 << 20, description="bytes of one send")
    port: Port = Field(5401, description="the server's port")
    client_port: Port | None = Field(40001, description="the client's port; null for any")
    congestion: Congestion | None = Field("cubic", description="congestion control of the client")

    @property
    def tcp_congestion(self) -> str | None:
        return self.congestion

    @property
    def huge_pages(self) -> int:
        """How many huge pages the sender needs."""
        return -(-self.length // zerocopy_worker.HUGE_PAGE) if self.pages == "huge" else 0

    @property
    def ports(self) -> frozenset[int]:
        return frozenset(filter(None, {self.port, self.client_port}))


def version() -> str:
    """The Python that sends: the tool is the testbed's own."""
    return f"python {platform.python_version()}"


def flow(lab: Lab, options: ZerocopyOptions, address: str) -> Flow:
    """What to start for `options`, and how to read what it prints."""
    config = json.dumps(
        {"address": address} | options.model_dump(exclude={"tool", "from_", "to", "timeout", "address"})
    )
    client, server = ["zerocopy_worker", "send", config], ["zerocopy_worker", "receive", config]
    worker = [sys.executable, "-I", "-S", str(Path(zerocopy_worker.__file__))]
    return Flow(
        options=options,
        workload=Workload(tool="zerocopy", client_argv=client, server_argv=server),
        client=[*worker, *client[1:]],
        server=[*worker, *server[1:]],
        port=options.port,
        read=read,
        suffix="json",
    )


def needs(options: ZerocopyOptions) -> AbstractContextManager[None]:
    """The huge pages that the sender's buffer takes."""
    return reserved(options.huge_pages) if options.huge_pages else nullcontext()


@contextmanager
def reserved(pages: int) -> Iterator[None]:
    """Have `pages` free huge pages of 2 MB; those that were added are given back, whatever happens.

    MissingCapability, in one line, when the kernel cannot provide them.
    """
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(hugepages_keeper.__file__)), str(pages)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a ^C that ends this program must not end it first
    )
    with keeper:
        assert keeper.stdout is not None
        answer = keeper.stdout.readline().strip()
        if answer != "ok":
            raise MissingCapability(f"zerocopy: {answer}; free memory, or send from ordinary pages")
        yield


def read(workload: Workload, sent: bytes, received: bytes) -> Reading:
    """What both ends printed, as figures of the seconds that count. What arrived is the throughput."""
    client, server = json_object(sent), json_object(received)
    if not client or not server or server["seconds"] <= 0:
        return Reading(workload)
    figures = {
        "bits_per_second": server["bytes"] * 8 / server["seconds"],
        "bytes": server["bytes"],
        "retransmits": client["retransmits"],
        "congestion": client["congestion"],
        "tuple": Tuple(
            source=client["local"][0],
            source_port=client["local"][1],
            destination=client["remote"][0],
            destination_port=client["remote"][1],
        ),
        "zerocopy": Zerocopy(**{name: client[name] for name in Zerocopy.__struct_fields__}),
    }
    return Reading(
        structs.replace(workload, **figures), server["seconds"], arrived={"server": server["bytes"]}
    )


TOOL = FlowTool(name="zerocopy", options=ZerocopyOptions, version=version, flow=flow, needs=needs)
