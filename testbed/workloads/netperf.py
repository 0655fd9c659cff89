"""netperf: start netserver and netperf, and read their results."""

from __future__ import annotations

import os
from functools import cache

from testbed.available import output_of, version_in
from testbed.lab.lab import Lab
from testbed.records.round import Tuple, Workload
from testbed.workloads.flow import Flow, FlowTool, source_address, wait_for_start
from testbed.workloads.netperf_options import NetperfOptions, client_options, server_options
from testbed.workloads.netperf_result import read

_HOW_TO_GET = "apt install netperf; Debian 12 has it in its component non-free, Debian 13 in main"


def version() -> str:
    """netperf's version. MissingCapability where netperf or netserver is not installed, or does not run."""
    return _version(os.environ.get("PATH", ""))


@cache
def _version(path: str) -> str:
    output_of(["netserver", "-V"], _HOW_TO_GET)
    return version_in(output_of(["netperf", "-V"], _HOW_TO_GET), "Netperf version ") or "unknown"


def flow(lab: Lab, options: NetperfOptions, address: str) -> Flow:
    """What to start for `options`, and how to read what it prints: a netserver of its own and a netperf."""
    client = ["netperf", *client_options(options, address)]
    server = ["netserver", *server_options(options)]
    workload = Workload(
        tool="netperf",
        client_argv=client,
        server_argv=server,
        tuple=Tuple(
            source=source_address(lab, options, address),
            source_port=options.local_port,
            destination=address,
            destination_port=options.port,
        ),
    )
    return Flow(
        options=options,
        workload=workload,
        client=wait_for_start(client),
        server=server,
        port=options.control_port,
        read=lambda known, output, _: read(known, output, options),
        own_warmup=False,
        serves_on=True,
        # Its server waits for a further connection, until a timer set to PAD_TIME (4 s) beyond
        # the test interrupts it (recv_omni in src/nettest_omni.c).
        alarm_at_end=options.test == "TCP_CRR",
        wall_clock=True,  # gettimeofday
        outstanding=1 + options.burst,
    )


TOOL = FlowTool(name="netperf", options=NetperfOptions, version=version, flow=flow)
