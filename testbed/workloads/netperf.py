"""netperf, through a binding of our own: options in, typed results out, no shell."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from testbed.errors import MissingCapability
from testbed.records import Tuple, Workload
from testbed.topology.lab import Lab
from testbed.workloads import when_told
from testbed.workloads.flow import Flow, destination, run_flows, source_address
from testbed.workloads.netperf_options import NetperfOptions, client_options, server_options
from testbed.workloads.netperf_result import read
from testbed.workloads.tool import Hooks, Options, Outcome

_HOW_TO_GET = "apt install netperf; Debian 12 has it in its component non-free, Debian 13 in main"


class Netperf:
    """See workloads/tool.py: Tool."""

    name = "netperf"
    options: type[Options] = NetperfOptions

    def version(self) -> str:
        """netperf's version. MissingCapability where netperf or netserver is not installed."""
        for program in ("netperf", "netserver"):
            if shutil.which(program) is None:
                raise MissingCapability(f"netperf: {program} is not installed ({_HOW_TO_GET})")
        return _version()

    def run(
        self,
        lab: Lab,
        options: NetperfOptions,
        *,
        cpus: Mapping[str, Collection[int]],
        hooks: Hooks,
        raw: Path,
        raw_name: str,
    ) -> Outcome:
        """One test, between a netserver of its own and a netperf."""
        flow = self.flow(lab, options)
        (outcome,) = run_flows(lab, [flow], cpus=cpus, hooks=hooks, raw=raw, raw_name=raw_name)
        return outcome

    def flow(self, lab: Lab, options: NetperfOptions) -> Flow:
        """What to start for `options`, and how to read what it prints."""
        address = destination(lab, options)
        client = ["netperf", *client_options(options, address)]
        server = ["netserver", *server_options(options)]
        workload = Workload(
            tool=self.name,
            version=self.version(),
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
            client=[sys.executable, "-I", "-S", str(Path(when_told.__file__)), *client],
            server=server,
            port=options.control_port,
            read=lambda output, _: read(workload, output, options),
            omits=False,
            serves_on=True,
        )


@cache
def _version() -> str:
    told = subprocess.run(["netperf", "-V"], capture_output=True, text=True, timeout=10, check=False)
    found = re.search(r"\d+\.\d[\w.]*", told.stdout)
    return found.group() if found else "unknown"
