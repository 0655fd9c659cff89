"""Workloads make the traffic of a round. Each tool is one module, listed in TOOLS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed import yamlfile
from testbed.errors import InputError
from testbed.workloads import flows, kperf
from testbed.workloads.tool import Options, Tool

TOOLS: dict[str, Tool[Any]] = {**flows.TOOLS, "flows": flows.Flows(), "kperf": kperf.TOOL}


def parse_options(raw: Mapping[str, Any]) -> Options:
    """The options of a workload, by its key `tool`. InputError, one line, for what is wrong with them."""
    name = raw.get("tool")
    if name is None:
        raise InputError(f"workload: the key 'tool' is missing; it is one of {', '.join(TOOLS)}")
    if not isinstance(name, str) or name not in TOOLS:
        hint = yamlfile.did_you_mean(str(name), list(TOOLS)) or f"; there are {', '.join(TOOLS)}"
        raise InputError(f"workload.tool: no tool '{name}'{hint}")
    return yamlfile.validate_value("workload", raw, TOOLS[name].options)
