"""testbed: prove what a change to the Linux network stack does.

What a program needs is offered here, and imported when it is first used:

    from testbed import open_lab, measure_flow

    with open_lab("veth-pair") as lab:
        lab.set({"*:veth0": {"gso_max_size": 524280}})
        flow = measure_flow(lab, {"tool": "iperf3", "from": "client", "to": "server", "duration": 1})
        print(flow.largest("server:veth0"), flow.workload.bits_per_second)
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from testbed.errors import InputError as InputError
    from testbed.errors import MissingCapability as MissingCapability
    from testbed.errors import TestbedError as TestbedError
    from testbed.lab.lab import Lab as Lab
    from testbed.lab.lab import open_lab as open_lab
    from testbed.library import FlowRecord as FlowRecord
    from testbed.library import find_capabilities as find_capabilities
    from testbed.library import measure_flow as measure_flow
    from testbed.library import read_run as read_run
    from testbed.library import run_experiment as run_experiment
    from testbed.topology.loading import load_topology as load_topology
    from testbed.topology.loading import parse_topology as parse_topology

_OFFERED = {
    "testbed.errors": ("TestbedError", "InputError", "MissingCapability"),
    "testbed.topology.loading": ("load_topology", "parse_topology"),
    "testbed.lab.lab": ("Lab", "open_lab"),
    "testbed.library": ("FlowRecord", "measure_flow", "run_experiment", "read_run", "find_capabilities"),
}
__all__ = [name for names in _OFFERED.values() for name in names]


def __getattr__(name: str) -> object:
    # What is offered imports pydantic and more: `import testbed` alone must not.
    for module, names in _OFFERED.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'testbed' has no attribute '{name}'")
