"""Boot a kernel in a virtual machine and run commands in it.

    with Vm(kernel, folder) as vm:
        result = vm.run(["testbed", "probe"], timeout=60)

The guest sees this machine's root file system read-only, and `folder` writable,
under the same paths. Nothing outlives this process, even on SIGKILL: QEMU and
its daemons live in namespaces of their own that end with it.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.errors import InputError
from testbed.guests import command, console, pinning, qemu, ways
from testbed.guests.agent import Agent, Channel, GuestLost
from testbed.guests.launch import Launched, Size, launch
from testbed.guests.result import BootFailed, Result, of_status
from testbed.guests.ways import Way
from testbed.kernels.cache import BuiltKernel
from testbed.outcome import Outcome

# Seconds with KVM; software emulation gets `Way.slowdown` times as much.
BOOT_S = 25.0
ANSWER_S = 3.0
LAST_WORDS_S = 2.0
POLL_S = 0.1

Watch = Callable[[Path], None]
End = tuple[Outcome, int | None, str | None]


class Vm:
    """A guest. Entering boots it, in each of the ways that may work here until one does.

    kernel: what to boot. folder: new or empty; holds the guest's record
    (console.log, vm.json) and a folder for each command. shared: the folder that
    the guest can write, `folder` or one above it.
    try_ways: how to try to boot; by default what `ways.candidates` finds.
    BootFailed with the console's last lines when it does not become ready.
    """

    def __init__(
        self,
        kernel: BuiltKernel,
        folder: Path,
        *,
        shared: Path | None = None,
        size: Size | None = None,
        try_ways: Sequence[Way] = (),
    ) -> None:
        self.kernel = kernel
        self.folder = folder.absolute()
        self.shared = (shared or folder).absolute()
        self.size = size or Size()
        self.way: Way | None = None
        self.boot_s = 0.0
        self.taint = 0
        self._try_ways = tuple(try_ways)
        self._guest: Launched | None = None
        self._agent: Agent | None = None
        self._commands = 0
        if not self.folder.is_relative_to(self.shared):
            raise InputError(f"{folder}: not inside the shared folder {shared}")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise InputError(
                f"{folder}: holds an earlier result, which is never overwritten; name a new folder"
            )

    @property
    def slowdown(self) -> float:
        """What every time limit is multiplied by here (1 with KVM)."""
        return self.way.slowdown if self.way else 1.0

    @property
    def alive(self) -> bool:
        """Whether the guest runs, as far as is known."""
        return self._agent is not None

    @property
    def pid(self) -> int:
        """The process on this machine below which all of the guest's are."""
        return self._held()[0].supervisor.pid

    @property
    def terminal(self) -> socket.socket:
        """The near end of the guest's terminal, on which `shell` runs its command."""
        return self._held()[0].terminal

    def __enter__(self) -> Self:
        self.boot()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def boot(self) -> None:
        """Start the guest and wait until its agent answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        failures = []
        waiting = list(self._try_ways or ways.candidates(self.kernel))
        for number in count():
            if not waiting:
                break
            way = waiting.pop(0)
            reason = self._attempt(way)
            if reason is None:
                if not self._try_ways:
                    ways.remember(way)
                self._write_record()
                return
            failures.append(f"{way}: {reason}")
            if (
                way.accelerator == "tcg"
                and not way.one_thread
                and console.emulator_failed(self._log("qemu.log"))
            ):
                # QEMU 9 and 10 race with themselves in device accesses of emulated vCPUs.
                waiting.insert(0, replace(way, one_thread=True))
            for name in ("console.log", "qemu.log"):
                if (self.folder / name).exists():
                    (self.folder / name).rename(self.folder / f"{name}.attempt-{number}")
        raise BootFailed(f"{self.kernel.name} does not boot: {'; '.join(failures)} (see {self.folder})")

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        watch: Watch | None = None,
    ) -> Result:
        """Run `argv` in the guest. It is killed after `timeout` seconds times `slowdown`.

        env: set beside PATH, HOME and a few others. watch: called some ten times a
        second while the command runs, and after it, with the folder of its stdout and stderr.
        After a crash, or when the guest answers no more, `alive` is false.
        """
        return self._command("run", argv, timeout, env, cwd, watch)

    def shell(self, argv: Sequence[str], watch: Watch) -> Result:
        """Run `argv` on the guest's terminal, whose near end is `terminal`, until it ends."""
        return self._command("shell", argv, float("inf"), None, None, watch)

    def channel(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Channel:
        """Start `argv` in the guest, and lines to its stdin and from its stdout. One at a time."""
        guest, agent = self._held()
        name = self._prepare(argv, env, None).name
        agent.start("channel", name)
        return Channel(agent, guest.port, name)

    def crashed(self) -> str | None:
        """The line with which the kernel logged that it crashed, or None."""
        return console.fatal(self._log("console.log"))

    def close(self) -> None:
        """End the guest now. What it wrote is here already. Idempotent."""
        if self._guest is not None:
            self._guest.close()
        self._guest = self._agent = None

    def _attempt(self, way: Way) -> str | None:
        """Boot in one way; None when the agent answered, otherwise why not."""
        started = time.monotonic()
        self.way = way
        self._guest = launch(self.kernel, way, self.size, self.folder, self.shared)
        agent = Agent(self._guest.control)
        try:
            self.taint = agent.ready(started + BOOT_S * way.slowdown)
        except (TimeoutError, ConnectionError) as error:
            reason = console.why_not_booted(self._log("console.log"), self._log("qemu.log")) or str(error)
            self.close()
            return reason
        self.boot_s = time.monotonic() - started
        self._agent = agent
        if self.size.pins:
            pinning.pin_vcpus(self.pid, self.size.pins)
        return None

    def _command(
        self,
        verb: str,
        argv: Sequence[str],
        timeout: float,
        env: Mapping[str, str] | None,
        cwd: Path | None,
        watch: Watch | None,
    ) -> Result:
        _, agent = self._held()
        folder = self._prepare(argv, env, cwd)
        before, logged, started = self.taint, len(self._log("console.log")), time.monotonic()
        agent.start(verb, folder.name)
        outcome, status, reason = self._until_ended(agent, folder, started + timeout * self.slowdown, watch)
        if outcome is Outcome.TIMEOUT and reason is None:
            reason = command.why_over(timeout, self.slowdown)
        result = Result(
            outcome,
            status,
            time.monotonic() - started,
            folder / "stdout",
            folder / "stderr",
            reason=reason,
            kernel_log=console.notable(self._log("console.log")[logged:]),
            taint_before=before,
            taint_after=self.taint if self.alive else None,
        )
        (folder / "result.json").write_text(json.dumps(result.record(), indent=1) + "\n")
        return result

    def _prepare(self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None) -> Path:
        """Write down a command for the agent, in a folder of its own."""
        self._commands += 1
        folder = self.folder / f"{self._commands:04}"
        folder.mkdir()
        text = command.script(self.kernel, self.folder, argv, slowdown=self.slowdown, env=env, cwd=cwd)
        (folder / "run").write_text(text)
        return folder

    def _until_ended(self, agent: Agent, folder: Path, deadline: float, watch: Watch | None) -> End:
        """Wait for the command's end: outcome, status and, where there is one, the reason."""
        next_check = time.monotonic() + 1
        while True:
            try:
                status, self.taint = agent.ended(folder.name, time.monotonic() + POLL_S)
            except TimeoutError:
                pass
            except ConnectionError as error:
                return self._crash() or (Outcome.CRASH, None, str(error))
            else:
                if watch:
                    watch(folder)
                return self._crash() or (of_status(status), status, None)
            if watch:
                watch(folder)
            if time.monotonic() > deadline:
                return self._give_up(agent, folder.name)
            if time.monotonic() > next_check:
                next_check = time.monotonic() + 1
                if crash := self._crash():
                    return crash
                if full := command.why_full(self.folder):
                    return self._kill(agent, folder.name) or (Outcome.FAIL, None, full)

    def _crash(self) -> End | None:
        """The end of a guest whose kernel crashed; None when it did not."""
        if self.crashed() is None:
            return None
        # Until the console falls silent: the rest of the splat, and the panic that may follow.
        size, deadline = -1, time.monotonic() + LAST_WORDS_S * self.slowdown
        while time.monotonic() < deadline and (now := len(self._log("console.log"))) != size:
            size = now
            time.sleep(0.3)
        reason = self.crashed()
        self.close()
        return Outcome.CRASH, None, reason

    def _give_up(self, agent: Agent, name: str) -> End:
        """End a command whose time is over; its blocked tasks go to the console first."""
        agent.sysrq("w")
        return self._kill(agent, name) or (Outcome.TIMEOUT, None, None)

    def _kill(self, agent: Agent, name: str) -> End | None:
        """End a command. The guest too, when it no longer answers: that is its end then."""
        try:
            agent.kill(name)
            _, self.taint = agent.ended(name, time.monotonic() + ANSWER_S * self.slowdown)
        except (TimeoutError, ConnectionError):
            self.close()
            return Outcome.TIMEOUT, None, "the guest hangs: it no longer answers"
        return None

    def _held(self) -> tuple[Launched, Agent]:
        if self._guest is None or self._agent is None:
            raise GuestLost(f"{self.kernel.name}: the guest is gone: {self.crashed() or 'it was closed'}")
        return self._guest, self._agent

    def _log(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def _write_record(self) -> None:
        guest, _ = self._held()
        record: dict[str, Any] = {
            "kernel": self.kernel.name,
            "release": self.kernel.release,
            "accelerator": guest.machine.accelerator,
            "transport": guest.machine.transport,
            "boot_s": round(self.boot_s, 2),
            "command_line": qemu.command_line(guest.machine),
            "cores": self.size.cores,
            "memory_mib": self.size.memory_mib,
            "pins": list(self.size.pins),
        }
        (self.folder / "vm.json").write_text(json.dumps(record, indent=1) + "\n")
