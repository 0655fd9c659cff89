"""The processes of one measurement, started and ended as a group; none is left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

import psutil

from testbed import clocks
from testbed.clocks import Moment
from testbed.nodes.cgroup import Used
from testbed.nodes.node import Ended, Node, Process
from testbed.records.round import ProcessUse
from testbed.slowness import scaled

_POLL_S = 0.002  # between two looks at what sends no event when it changes
_EXIT_S = scaled(5.0)  # from a process's last output to its end
_DYING_S = scaled(1.0)  # for the end of a server whose client failed, which may be the reason


class GroupProcess:
    """One process of a group, with all that it wrote."""

    def __init__(self, process: Process, errors: IO[bytes]) -> None:
        self.process = process
        self.output = bytearray()
        self.ended: Ended | None = None
        self.killed = False
        self.line_sent_at: Moment | None = None
        self.ended_at: Moment | None = None
        self._used = Used(0.0, 0.0)
        self._until: Used | None = None
        self._errors = errors

    @property
    def role(self) -> str:
        return self.process.role

    def send_line(self, line: bytes) -> None:
        """Write `line` to its stdin, and note when. Ignored where the process is gone."""
        assert self.process.stdin is not None
        self.line_sent_at = clocks.read()
        with suppress(BrokenPipeError):
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def end(self, ended: Ended | None) -> None:
        """Note its end (None: it still runs) and the time at which that was seen."""
        self.ended, self.ended_at = ended, clocks.read() if ended else None

    def errors(self) -> list[str]:
        """The lines that it wrote to stderr."""
        self._errors.seek(0)
        return [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]

    def start_counting(self) -> None:
        """Count its CPU time from now on."""
        self._used = self.process.used()

    def stop_counting(self) -> None:
        """Count its CPU time until now."""
        self._until = self.process.used()

    def activity(self) -> tuple[str, int] | None:
        """Its state, and how often it has been scheduled; None when it is gone."""
        try:
            process = psutil.Process(self.process.pid)
            return process.status(), sum(process.num_ctx_switches())
        except psutil.NoSuchProcess:
            return None

    def alarm(self) -> None:
        """Send it SIGALRM, as a timer of its own would."""
        if self.ended is None:
            os.kill(self.process.pid, signal.SIGALRM)

    def use(self) -> ProcessUse:
        """CPU seconds while they counted, of the process and of all that it started.

        0 while it runs.
        """
        if self.ended is None:
            return ProcessUse(user_s=0.0, system_s=0.0)
        user, system = self._until or (self.ended.user_s, self.ended.system_s)
        user_before, system_before = self._used
        return ProcessUse(user_s=max(0.0, user - user_before), system_s=max(0.0, system - system_before))

    def how_it_ended(self) -> str | None:
        """`ended by SIGKILL`, `exit status 1`; None when it ended well, or because we ended it."""
        if self.killed or self.ended is None or self.ended.status == 0:
            return None
        if self.ended.status < 0:
            return f"ended by {signal.Signals(-self.ended.status).name}"
        return f"exit status {self.ended.status}"


class ProcessGroup:
    """Processes of one measurement. A context manager: leaving it kills those that still run."""

    def __init__(self) -> None:
        self.members: list[GroupProcess] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._selector.close()
        for member in self.members:
            for stream in (member.process.stdin, member.process.stdout, member._errors):
                if stream is not None:
                    _close(stream)

    def start(
        self, node: Node, argv: Sequence[str], *, role: str, cpus: Collection[int] | None, talk: bool = False
    ) -> GroupProcess:
        """Start `argv` in `node`; with `talk` it has a stdin that `GroupProcess.send_line` writes to."""
        errors = os.fdopen(os.memfd_create(f"{role}-stderr"), "r+b")
        process = node.start(
            argv,
            role=role,
            cpus=cpus,
            stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        member = GroupProcess(process, errors)
        self.members.append(member)
        assert process.stdout is not None
        self._selector.register(process.stdout.fileno(), selectors.EVENT_READ, member)
        return member

    def wait_until(self, happened: Callable[[], bool], deadline: float, *, silent: bool = False) -> bool:
        """Take in output until `happened()`, or until `deadline` (time.monotonic()); whether it happened.

        `silent`: no output accompanies the event (a socket's state, say), so it is polled.
        """
        while not happened():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._take(min(left, _POLL_S) if silent else left)
        return True

    def wait_for_end(self, endless: Collection[GroupProcess], deadline: float, settle: float) -> None:
        """Take in output until every process has ended but the `endless`, which are killed then.

        Once one has ended, the others get `settle` seconds at most. What runs
        after that, or after `deadline`, is killed.
        """
        awaited = [member for member in self.members if member not in endless]
        self.wait_until(lambda: any(member.ended for member in self.members), deadline)
        deadline = min(deadline, time.monotonic() + settle)
        self.wait_until(lambda: all(member.ended for member in awaited), deadline)
        if any(member.how_it_ended() for member in awaited):
            # A process that dies closes its connections first: its peer's end can be seen before its own.
            self.wait_until(lambda: all(member.ended for member in self.members), time.monotonic() + _DYING_S)
        self.kill()

    def start_counting(self) -> None:
        """Count the CPU time of the processes from now on."""
        for member in self.members:
            if member.ended is None:
                member.start_counting()

    def stop_counting(self) -> None:
        """Count the CPU time of the processes until now."""
        for member in self.members:
            if member.ended is None:
                member.stop_counting()

    def kill(self) -> None:
        """End every process that still runs."""
        for member in self.members:
            if member.ended is None:
                member.end(member.process.poll())
        # Who runs is settled before the first is killed: the end of one may end another.
        for member in [member for member in self.members if member.ended is None]:
            member.killed = True
            member.end(member.process.kill())

    def _take(self, timeout: float) -> None:
        if not self._selector.get_map():
            time.sleep(timeout)  # nothing runs: only the clock can change what is waited for
            return
        for key, _ in self._selector.select(timeout):
            member: GroupProcess = key.data
            data = os.read(key.fd, 1 << 16)
            member.output += data
            if not data:
                self._selector.unregister(key.fd)
                self._reap(member)

    def _reap(self, member: GroupProcess) -> None:
        try:
            member.end(member.process.wait(_EXIT_S))
        except TimeoutError:
            member.killed = True
            member.end(member.process.kill())


def _close(stream: IO[bytes]) -> None:
    with suppress(BrokenPipeError):  # a line for a process that was gone before it read it
        stream.close()
