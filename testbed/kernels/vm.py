"""Boot a kernel in a virtual machine and run commands in it.

    with Vm(kernel, folder) as vm:
        result = vm.run(["testbed", "probe"], timeout=60)

The guest sees this machine's root file system read-only, and `folder` writable
under the same path. Nothing outlives this process, even on SIGKILL: QEMU and
its daemons live in namespaces of their own that end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.kernels import console, pinning, qemu, ways
from testbed.kernels.initramfs import initramfs
from testbed.kernels.outcome import BootFailed, Outcome, Result, of_status
from testbed.kernels.store import BuiltKernel
from testbed.kernels.ways import Way

BOOT_S = 25.0
ANSWER_S = 3.0
POLL_S = 0.1
# What a guest may write; more than any run leaves behind.
FOLDER_LIMIT = 2 << 30
KEPT_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "VIRTUAL_ENV", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class Size:
    """What the virtual machine has. pins: machine CPUs, one for each vCPU (none: not pinned)."""

    cores: int = 2
    memory_mib: int = 1024
    pins: tuple[int, ...] = ()
    append: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


class Vm:
    """A guest. Entering boots it, in each of the ways that may work here until one does.

    kernel: what to boot. folder: new or empty; holds the guest's record
    (console.log, vm.json) and a folder for each command. shared: the folder that
    the guest can write, `folder` or one above it.
    ways: how to try to boot; by default what `ways.candidates` finds.
    BootFailed with the console's last words when it does not become ready.
    """

    def __init__(
        self,
        kernel: BuiltKernel,
        folder: Path,
        *,
        shared: Path | None = None,
        size: Size | None = None,
        ways: Sequence[Way] = (),
    ) -> None:
        self.kernel = kernel
        self.folder = folder.absolute()
        self.shared = (shared or folder).absolute()
        self.size = size or Size()
        self.way: Way | None = None
        self.boot_s = 0.0
        self.taint = 0
        self._ways = tuple(ways)
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._sockets: list[socket.socket] = []
        self._control: socket.socket | None = None
        self.port: socket.socket | None = None
        self.terminal: socket.socket | None = None
        self._pending = b""
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
        """Whether the guest runs."""
        return self._supervisor is not None and self._control is not None

    def __enter__(self) -> Self:
        self.boot()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def boot(self) -> None:
        """Start the guest and wait until its agent answers."""
        candidates = self._ways or ways.candidates(self.kernel)
        self.folder.mkdir(parents=True, exist_ok=True)
        failures = []
        for number, way in enumerate(candidates):
            reason = self._attempt(way)
            if reason is None:
                if not self._ways:
                    ways.remember(way)
                self._write_record()
                return
            failures.append(f"{way}: {reason}")
            self._keep_console(number)
        raise BootFailed(
            f"{self.kernel.name} does not boot; " + "; ".join(failures) + f" (see {self.folder})"
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        watch: Callable[[Result], None] | None = None,
    ) -> Result:
        """Run `argv` in the guest. It is killed after `timeout` seconds times `slowdown`.

        env: set beside PATH, HOME and a few others. watch: called with what is
        known so far some ten times a second while the command runs.
        After a crash or a guest that answers no more, `alive` is false.
        """
        return self._command("run", argv, timeout, env, cwd, watch)

    def shell(self, argv: Sequence[str], watch: Callable[[Result], None]) -> Result:
        """Run `argv` on the guest's terminal, whose other end is `terminal`, until it ends."""
        return self._command("shell", argv, float("inf"), None, None, watch)

    def start_channel(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> socket.socket:
        """Start `argv` with its stdin and stdout joined to the socket that is returned."""
        name, _ = self._prepare(argv, env, None)
        self._send(f"channel {name}")
        assert self.port is not None
        return self.port

    def crashed(self) -> str | None:
        """Why the guest is gone or going (a panic, an oops), or None."""
        return console.fatal(self._console_text())

    def close(self) -> None:
        """End the guest now. What it wrote is here already. Idempotent."""
        for held in self._sockets:
            held.close()
        self._sockets, self._control, self.port, self.terminal = [], None, None, None
        if self._supervisor is not None:
            # unshare --kill-child takes process 1 with it, and that all others.
            self._supervisor.kill()
            self._supervisor.wait()
            self._supervisor = None
        with contextlib.suppress(OSError):
            (self.folder / ".sockets").rmdir()

    # How it is done.

    def _attempt(self, way: Way) -> str | None:
        """Boot in one way; None when the agent answered, otherwise why not."""
        started = time.monotonic()
        self.way = way
        self._start(way)
        try:
            words = self._await("ready", started + BOOT_S * way.slowdown).split()
        except (TimeoutError, ConnectionError) as error:
            reason = console.why_not_booted(self._console_text(), self._qemu_log()) or str(error)
            self.close()
            return reason
        self.boot_s = time.monotonic() - started
        self.taint = int(words[1])
        if self.size.pins:
            assert self._supervisor is not None
            pinning.pin_vcpus(self._supervisor.pid, self.size.pins)
        return None

    def _start(self, way: Way) -> None:
        sockets = self.folder / ".sockets"
        sockets.mkdir(exist_ok=True)
        archive = self.folder / ".initramfs"
        archive.write_bytes(initramfs(self.kernel, way.transport, self._settings()))
        near, far = zip(*(socket.socketpair() for _ in range(4)), strict=True)
        control, port, terminal, alive = far
        machine = qemu.Machine(
            name=self.kernel.name,
            image=self.kernel.image,
            initramfs=archive,
            accelerator=way.accelerator,
            transport=way.transport,
            shares=(
                qemu.Share("root", Path("/"), writable=False, cached=True),
                qemu.Share("results", self.shared, writable=True, cached=False),
            ),
            console=self.folder / "console.log",
            control=control.fileno(),
            channel=port.fileno(),
            terminal=terminal.fileno(),
            sockets=sockets,
            cores=self.size.cores,
            memory_mib=self.size.memory_mib,
            append=self.size.append,
            devices=self.size.devices,
        )
        self._machine = machine
        daemon, help_text = ways.daemon() if way.transport == "virtiofs" else (Path(), "")
        script = qemu.supervisor(machine, qemu.daemons(machine, daemon, help_text))
        with (self.folder / "qemu.log").open("ab") as log:
            self._supervisor = subprocess.Popen(
                [*_unshare(), "sh", "-c", script],
                stdin=alive,
                stdout=log,
                stderr=log,
                pass_fds=[each.fileno() for each in (control, port, terminal)],
                start_new_session=True,
            )
        for each in far:
            each.close()
        self._sockets = list(near)
        self._control, self.port, self.terminal, _ = near
        self._pending = b""

    def _settings(self) -> dict[str, str]:
        """What init and agent read. keep: what must be seen although it may lie below /tmp."""
        package = Path(__file__).resolve().parents[2]
        keep = [Path.cwd(), Path(sys.prefix), Path(sys.base_prefix), package, self.kernel.folder]
        covered = [path for path in keep if path.parts[:2] in (("/", "tmp"), ("/", "run"))]
        return {
            "keep": "\n".join(str(path) for path in dict.fromkeys(covered)),
            "shared": str(self.shared),
            "folder": str(self.folder),
            "modules": str(self.kernel.modules),
            "modprobe": shutil.which("modprobe") or "/sbin/modprobe",
            "hostname": self.kernel.name.replace("_", "-")[:63],
        }

    def _command(
        self,
        verb: str,
        argv: Sequence[str],
        timeout: float,
        env: Mapping[str, str] | None,
        cwd: Path | None,
        watch: Callable[[Result], None] | None,
    ) -> Result:
        name, place = self._prepare(argv, env, cwd)
        begun = Result(Outcome.FAIL, None, 0.0, place / "stdout", place / "stderr", taint_before=self.taint)
        started = time.monotonic()
        self._send(f"{verb} {name}")
        outcome, status, reason = self._until_ended(name, started + timeout * self.slowdown, begun, watch)
        if outcome is Outcome.TIMEOUT and reason is None:
            reason = f"ended after {timeout:g} s times {self.slowdown:g}"
        result = Result(
            outcome,
            status,
            time.monotonic() - started,
            begun.stdout,
            begun.stderr,
            reason=reason,
            kernel_log=console.notable(self._console_text()),
            taint_before=begun.taint_before,
            taint_after=self.taint if self.alive else None,
        )
        (place / "result.json").write_text(json.dumps(result.record(), indent=1) + "\n")
        return result

    def _prepare(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None
    ) -> tuple[str, Path]:
        """Write down a command for the agent: its name and folder."""
        if not self.alive:
            raise TestbedError(f"{self.kernel.name}: the guest is gone: {self.crashed() or 'it was closed'}")
        self._commands += 1
        name = f"{self._commands:04}"
        place = self.folder / name
        place.mkdir()
        held = {key: os.environ[key] for key in KEPT_ENVIRONMENT if key in os.environ}
        held |= {"TESTBED_RESULTS": str(self.folder), "TESTBED_KERNEL": self.kernel.name, **(env or {})}
        words = ["exec", "env", "-i", *(f"{key}={value}" for key, value in held.items()), *argv]
        (place / "run").write_text(
            f"cd {shlex.quote(str(cwd or Path.cwd()))} || exit 126\n{shlex.join(words)}\n"
        )
        return name, place

    def _until_ended(
        self, name: str, deadline: float, begun: Result, watch: Callable[[Result], None] | None
    ) -> tuple[Outcome, int | None, str | None]:
        """Wait for the command's end: outcome, status and, where there is one, the reason."""
        checked = 0.0
        while True:
            try:
                words = self._await(f"ended {name}", time.monotonic() + POLL_S).split()
            except TimeoutError:
                words = []
            except ConnectionError:
                self._settle()
                reason = self.crashed() or "the guest powered off"
                self.close()
                return Outcome.CRASH, None, reason
            if watch:
                watch(begun)
            if words:
                self.taint = int(words[3])
                if fatal := self.crashed():
                    return Outcome.CRASH, int(words[2]), fatal
                return of_status(int(words[2])), int(words[2]), None
            now = time.monotonic()
            if now > deadline:
                return self._give_up(name)
            if now > checked + 1:
                checked = now
                if fatal := self.crashed():
                    # Time for the rest of the splat, and for a panic to end QEMU by itself.
                    self._settle()
                    self.close()
                    return Outcome.CRASH, None, fatal
                if full := self._full():
                    self._kill(name)
                    return Outcome.FAIL, None, full

    def _give_up(self, name: str) -> tuple[Outcome, int | None, str | None]:
        """End a command whose time is over; the guest too, when it no longer answers."""
        try:
            self._send("sysrq w")
            self._kill(name)
        except (TimeoutError, ConnectionError):
            self.close()
            return Outcome.TIMEOUT, None, "the guest hangs: it answers no more"
        return Outcome.TIMEOUT, None, None

    def _kill(self, name: str) -> None:
        self._send(f"kill {name}")
        words = self._await(f"ended {name}", time.monotonic() + ANSWER_S * self.slowdown).split()
        self.taint = int(words[3])

    def _settle(self) -> None:
        """Let the console's last words arrive: until they stop, at most a second or two."""
        size, deadline = -1, time.monotonic() + 2 * self.slowdown
        while time.monotonic() < deadline and (now := len(self._console_text())) != size:
            size = now
            time.sleep(0.3)

    def _full(self) -> str | None:
        """Why the guest may not write any more, or None."""
        used = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        if used > FOLDER_LIMIT:
            return f"the results folder is full: {used >> 20} MiB, at most {FOLDER_LIMIT >> 20}"
        if shutil.disk_usage(self.folder).free < 64 << 20:
            return f"no space left where the results folder lies ({self.folder})"
        return None

    def _send(self, line: str) -> None:
        if self._control is None:
            raise ConnectionError("the guest is gone")
        self._control.sendall(line.encode() + b"\n")

    def _await(self, start: str, deadline: float) -> str:
        """The agent's next line that begins with `start`; others are passed over."""
        while True:
            while b"\n" in self._pending:
                line, _, self._pending = self._pending.partition(b"\n")
                text = line.decode(errors="replace").strip()
                if text.startswith(start):
                    return text
            if self._control is None:
                raise ConnectionError("the guest is gone")
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._control], [], [], left)[0]:
                raise TimeoutError("not ready in time")
            read = self._control.recv(4096)
            if not read:
                raise ConnectionError("the guest powered off")
            self._pending += read

    def _console_text(self) -> str:
        try:
            return (self.folder / "console.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def _qemu_log(self) -> str:
        return (self.folder / "qemu.log").read_text(errors="replace")

    def _keep_console(self, number: int) -> None:
        for name in ("console.log", "qemu.log"):
            path = self.folder / name
            if path.exists():
                path.rename(path.with_name(f"{name}.attempt-{number}"))

    def _write_record(self) -> None:
        assert self.way is not None
        record = {
            "kernel": self.kernel.name,
            "release": self.kernel.release,
            "accelerator": self.way.accelerator,
            "transport": self.way.transport,
            "boot_s": round(self.boot_s, 2),
            "command_line": qemu.command_line(self._machine),
            "cores": self.size.cores,
            "memory_mib": self.size.memory_mib,
            "pins": list(self.size.pins),
        }
        (self.folder / "vm.json").write_text(json.dumps(record, indent=1) + "\n")


def _unshare() -> list[str]:
    """How to enter namespaces of one's own, whose first process ends all others when it ends."""
    for tool, package in ((qemu.QEMU, "qemu-system-x86"), ("unshare", "util-linux")):
        if not shutil.which(tool):
            raise MissingCapability(f"booting a kernel needs {tool}: apt-get install {package}")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
