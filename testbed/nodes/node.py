"""The interface of a node, wherever its network stack runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ParamSpec, Protocol, TypeVar

from testbed.nodes.cgroup import Used

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Ended:
    """How a process ended. `status` is the exit status, or minus the signal's number.

    The CPU seconds are those of all that it started, too.
    """

    status: int
    user_s: float
    system_s: float


class Process(Protocol):
    """A process started in a node. It dies with the program that started it, SIGKILL included."""

    role: str
    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def wait(self, timeout: float) -> Ended:
        """Its end. TimeoutError after `timeout` seconds (the process goes on)."""
        ...

    def poll(self) -> Ended | None: ...

    def used(self) -> Used:
        """CPU seconds so far, of it and of all that it started."""
        ...

    def kill(self) -> Ended:
        """End it now (SIGKILL), and all that it started."""
        ...


class Node(Protocol):
    """A place with its own network stack: a namespace, a guest, another machine.

    Nothing above may assume that the stack is this kernel's: what must happen
    inside a node goes through `call` and `start`.
    """

    name: str

    @property
    def netns(self) -> int | None:
        """Inode number of its network namespace on this kernel; None when it is elsewhere."""
        ...

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of `function` run inside the node's stack: sockets it opens belong there.

        `function` is a module-level function of this package with picklable
        arguments and result (a guest or a host runs it at the far end).
        """
        ...

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
    ) -> Process:
        """Start `argv` inside the node, pinned to `cpus`. Descriptors as for subprocess.Popen."""
        ...
