"""Puts into the wheel what a checkout keeps elsewhere: the compiled BPF program and the shipped files."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShippedFiles(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to a wheel. An editable install reads them from the checkout (set-up compiles)."""
        if version != "standard":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        from testbed.errors import TestbedError
        from testbed.evidence.compile import build

        try:
            program = build()
        except TestbedError as error:
            sys.exit(f"testbed: a wheel holds the compiled BPF program: {error}")
        included = build_data["force_include"]
        included[str(program)] = str(program.relative_to(root))
        included[str(root / "topologies")] = "testbed/topologies"
        included[str(root / "experiments")] = "testbed/experiments/shipped"
