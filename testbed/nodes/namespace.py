"""A node that is a network namespace, kept alive by an open descriptor."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, ParamSpec, TypeVar

from testbed.netlink.channel import Channel
from testbed.netlink.ethtool import Features
from testbed.netlink.namespaces import entered, inode, new_namespace
from testbed.netlink.sysfs import Sysfs
from testbed.nodes.borrowed import Borrowed, give_back, take
from testbed.nodes.process import LocalProcess, start
from testbed.nodes.quiet import be_quiet

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Keeper:
    """Who ends what a node starts and gives back what it borrows, when that is not its own program."""

    mark: str
    record: Callable[[Borrowed], None]


class NamespaceNode:
    """See nodes/node.py: Node. Its sockets are opened when first used, and kept."""

    def __init__(self, name: str, namespace: int, keeper: Keeper | None = None) -> None:
        """`namespace` is a descriptor, which the node owns from now on.

        With a `keeper`, processes go on when this program ends, with the mark in
        their environment, and devices stay.
        """
        self.name = name
        self.namespace = namespace
        self._keeper = keeper
        self._processes: list[LocalProcess] = []
        self._borrowed: list[Borrowed] = []
        self._closed = False

    @classmethod
    def make(cls, name: str, keeper: Keeper | None = None) -> NamespaceNode:
        """A new, empty and quiet namespace. MissingCapability without the right to make one."""
        node = cls(name, new_namespace(), keeper)
        node.call(be_quiet)
        return node

    @property
    def netns(self) -> int:
        return inode(self.namespace)

    @cached_property
    def channel(self) -> Channel:
        """A rtnetlink socket inside."""
        return Channel(self.namespace)

    @cached_property
    def features(self) -> Features:
        """The features of its devices."""
        return Features(self.namespace)

    @cached_property
    def sysfs(self) -> Sysfs:
        """Its devices' files in /sys/class/net."""
        return Sysfs(self.namespace)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of `function`, run in this thread while it is inside."""
        with entered(self.namespace):
            return function(*args, **kwargs)

    def start(
        self,
        argv: Sequence[str],
        *,
        role: str,
        cpus: Collection[int] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        cwd: Path | None = None,
    ) -> LocalProcess:
        """Start `argv` inside. It ends at the latest when the node is closed."""
        process = start(
            self.namespace,
            argv,
            role=role,
            cpus=cpus,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            mark=self._keeper.mark if self._keeper else None,
        )
        self._processes = [*self.processes, process]
        return process

    def take(self, device: str) -> int:
        """Move a NIC of this machine in, until the node is closed; its ifindex here."""
        return take(device, self.namespace, self._keeper.record if self._keeper else self._borrowed.append)

    @property
    def processes(self) -> list[LocalProcess]:
        """Those that were started here and have not ended."""
        return [process for process in self._processes if process.poll() is None]

    def close(self) -> None:
        """End its processes, give back what it borrowed, and let go of the namespace; idempotent."""
        if self._closed:
            return
        self._closed = True
        for process in self._processes:
            if self._keeper:
                process.let_go()
            else:
                process.kill()
        for borrowed in self._borrowed:
            give_back(borrowed, self.namespace)
        for name in ("channel", "features", "sysfs"):
            if name in self.__dict__:
                self.__dict__[name].close()
        os.close(self.namespace)
