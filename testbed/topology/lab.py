"""A lab: a topology that is up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.experiments.records import Counters
from testbed.nodes.node import Node


@dataclass(frozen=True)
class LabDevice:
    """A device of a lab, as the kernel knows it."""

    node: str
    name: str
    kind: str
    ifindex: int

    @property
    def place(self) -> str:
        """`node:device`, as files, commands and records write it."""
        return f"{self.node}:{self.name}"


class Lab:
    """Nodes with their devices, applied and read back. A context manager: leaving it takes all of it away."""

    name: str | None
    nodes: dict[str, Node]

    def devices(self) -> list[LabDevice]:
        """Every device that the topology declares, in the file's order."""
        raise NotImplementedError

    def set(self, settings: Mapping[str, Any]) -> None:
        """Change live devices (`node:device` -> Settings) in the right order, and read back."""
        raise NotImplementedError

    def held(self) -> dict[str, dict[str, Any]]:
        """`node:device` -> what the kernel holds, under its own names."""
        raise NotImplementedError

    def counters(self) -> dict[str, Counters]:
        """`node:device` -> absolute counters (IFLA_STATS64)."""
        raise NotImplementedError

    def address(self, node: str, family: int) -> str:
        """The first address of `family` (4 or 6) that the topology gives to `node`, without prefix length."""
        raise NotImplementedError

    def close(self) -> None:
        """Take everything away; idempotent."""
        raise NotImplementedError
