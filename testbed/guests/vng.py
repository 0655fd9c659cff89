"""Boot a kernel with virtme-ng and run one command in it: `testbed kernel boot K --backend vng`.

For those who live in virtme-ng. Outcomes and files are those of `vm.Vm`, which is
quicker: virtme-ng starts udev before the command. Without a terminal the command's
output is lost, without udev its exit status, so a script in the guest leaves both
in the results folder. The guest may change what it sees of /etc, /usr and the like:
virtme-ng lays throw-away overlays over them.
"""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.available import output_of
from testbed.errors import MissingCapability
from testbed.guests import command, console, ways
from testbed.guests.launch import Size
from testbed.guests.qemu import SOCKETS
from testbed.guests.result import BootFailed, Result, of_status
from testbed.guests.ways import Way
from testbed.kernels.cache import BuiltKernel
from testbed.outcome import Outcome
from testbed.privilege import own_namespaces

# Seconds with KVM, `Way.slowdown` times as many without: udev takes most of them.
BOOT_S = 40.0
LAST_WORDS_S = 2.0
POLL_S = 0.2
GET_IT = "pipx install virtme-ng (from Debian 13 on apt-get install virtme-ng)"

# In the guest, in the command's folder: what Vm's agent does.
_GUEST = """cd {place} || exit
cat /proc/sys/kernel/tainted >taint-before
: >started
setsid sh ./run </dev/null >stdout 2>stderr
status=$?
cat /proc/sys/kernel/tainted >taint-after
dmesg >kernel.log 2>/dev/null
echo $status >status.new && mv status.new status
"""


@dataclass(frozen=True)
class Finished:
    """A command's end, and the seconds from start to command."""

    result: Result
    boot_s: float


def run(
    kernel: BuiltKernel,
    folder: Path,
    size: Size,
    argv: Sequence[str],
    *,
    timeout: float,
    watch: Callable[[Path], None],
    try_ways: Sequence[Way] = (),
) -> Finished:
    """Boot `kernel`, run `argv` for at most `timeout` seconds times the way's slowdown, end the guest.

    folder: new or empty; gets console.log, vm.json and the command's folder.
    watch: called with that folder some five times a second, and at the end.
    MissingCapability without virtme-ng, BootFailed when the command never started.
    """
    program = _program()
    failures = []
    for number, way in enumerate(_usable(kernel, try_ways or ways.candidates(kernel))):
        guest = _Guest(kernel, folder, way, folder / "0001")
        vng_argv = arguments(program, kernel, way, size, folder, guest.prepare(argv))
        _write_record(kernel, folder, way, vng_argv)
        finished = guest.run(vng_argv, timeout, watch)
        if finished is not None:
            if not try_ways:
                ways.remember(way)
            return finished
        failures.append(f"{way}: {guest.last_words() or 'it did not start the command in time'}")
        guest.console.rename(folder / f"console.log.attempt-{number}")
    raise BootFailed(f"{kernel.name} does not boot with vng: {'; '.join(failures)} (see {folder})")


def arguments(
    program: str, kernel: BuiltKernel, way: Way, size: Size, folder: Path, script: Path
) -> list[str]:
    """vng's command line (`Size.devices` is not for it)."""
    return [
        *(program, "--run", str(kernel.image), "--verbose"),
        *("--user", "root", "--rwdir", str(folder)),
        *("--cpus", str(size.cores), "--memory", f"{size.memory_mib}M", "--disable-microvm"),
        *(["--disable-kvm"] if way.accelerator == "tcg" else []),
        *(["--force-9p"] if way.transport == "9p" else []),
        *(["--pin", ",".join(map(str, size.pins))] if size.pins else []),
        *(f"--append={word}" for word in ("printk.devkmsg=on", *size.append)),
        *("--exec", shlex.join(["sh", str(script)])),
    ]


class _Guest:
    """One attempt to boot `kernel` in the way `way`; `place` is the command's folder."""

    def __init__(self, kernel: BuiltKernel, folder: Path, way: Way, place: Path) -> None:
        self.kernel, self.folder, self.way, self.place = kernel, folder, way, place
        self.console = folder / "console.log"

    def prepare(self, argv: Sequence[str]) -> Path:
        """Write down the command; what vng is to execute in the guest."""
        self.place.mkdir(parents=True, exist_ok=True)
        text = command.script(self.kernel, self.folder, argv, slowdown=self.way.slowdown)
        (self.place / "run").write_text(text)
        (self.place / "guest").write_text(_GUEST.format(place=shlex.quote(str(self.place))))
        return self.place / "guest"

    def run(self, argv: Sequence[str], timeout: float, watch: Callable[[Path], None]) -> Finished | None:
        """Start vng and wait for the command's end. None when the command never started."""
        launched = time.monotonic()
        with _running(argv, self.console) as process:
            if not self._started(process, launched + BOOT_S * self.way.slowdown):
                return None
            started, logged = time.monotonic(), len(self._log())
            outcome, status, reason = self._end(process, timeout, watch)
            seconds = time.monotonic() - started
        watch(self.place)
        result = Result(
            outcome,
            status,
            seconds,
            self.place / "stdout",
            self.place / "stderr",
            reason=reason,
            kernel_log=console.notable(self._log()[logged:]),
            taint_before=self._number("taint-before") or 0,
            taint_after=self._number("taint-after"),
        )
        (self.place / "result.json").write_text(json.dumps(result.record(), indent=1) + "\n")
        return Finished(result, started - launched)

    def last_words(self) -> str | None:
        """Why the guest did not boot, as its kernel or vng printed it."""
        return console.fatal(self._log()) or next(
            (line.strip() for line in reversed(self._log().splitlines()) if line.strip()), None
        )

    def _started(self, process: subprocess.Popen[bytes], deadline: float) -> bool:
        while not (self.place / "started").exists():
            if process.poll() is not None or time.monotonic() > deadline or console.fatal(self._log()):
                return (self.place / "started").exists()
            time.sleep(POLL_S)
        return True

    def _end(
        self, process: subprocess.Popen[bytes], timeout: float, watch: Callable[[Path], None]
    ) -> tuple[Outcome, int | None, str | None]:
        """The command's outcome, its status and, where there is one, the reason."""
        deadline = time.monotonic() + timeout * self.way.slowdown
        while True:
            # Looked at first: a guest that ended has left its status before.
            over = process.poll() is not None
            if console.fatal(self._log()):
                return self._crash(process)
            status = self._number("status")
            if status is not None:
                return of_status(status), status, None
            if over:
                return Outcome.CRASH, None, "the guest powered off"
            if time.monotonic() > deadline:
                return Outcome.TIMEOUT, None, command.why_over(timeout, self.way.slowdown)
            if full := command.why_full(self.folder):
                return Outcome.FAIL, None, full
            watch(self.place)
            time.sleep(POLL_S)

    def _crash(self, process: subprocess.Popen[bytes]) -> tuple[Outcome, int | None, str | None]:
        """The end of a guest whose kernel crashed, once it has said the rest or powered off."""
        deadline = time.monotonic() + LAST_WORDS_S * self.way.slowdown
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return Outcome.CRASH, None, console.fatal(self._log())

    def _number(self, name: str) -> int | None:
        """What the guest's script wrote, None before it did."""
        try:
            return int((self.place / name).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _log(self) -> str:
        try:
            return self.console.read_text(errors="replace")
        except FileNotFoundError:
            return ""


@contextmanager
def _running(argv: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """vng, its console in `log`, in namespaces that end with this process, however it ends.

    The console goes through a pipe: QEMU opens it several times, and truncates a file each time.
    """
    near, far = socket.socketpair()
    script = (
        # What virtme-ng would leave in /tmp, and the sockets of its daemons.
        f"exec 3<&0; mount -t tmpfs -o mode=700 tmpfs {SOCKETS}; export TMPDIR={SOCKETS}\n"
        f"{shlex.join(argv)} 2>&1 </dev/null 3<&- | cat >{shlex.quote(str(log))} &\n"
        # Nobody ever writes: this waits for the end of the other side.
        "console=$!; { read -r _ <&3 || kill -KILL -1; } &\nwait $console"
    )
    process = subprocess.Popen(
        [*own_namespaces(), "sh", "-c", script],
        stdin=far.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    far.close()
    try:
        yield process
    finally:
        near.close()
        process.kill()
        process.wait()


def _program() -> str:
    """Where vng is."""
    found = shutil.which("vng")
    if found is None:
        raise MissingCapability(f"--backend vng needs virtme-ng: {GET_IT}")
    output_of([found, "--version"], GET_IT)
    return found


def _usable(kernel: BuiltKernel, found: Sequence[Way]) -> list[Way]:
    """Those of the ways that virtme-ng can go: it does not know QEMU 7's own virtiofs daemon."""
    usable = [way for way in found if way.transport == "9p" or "--shared-dir" in ways.daemon()[1]]
    if not usable:
        raise MissingCapability(
            f"{kernel.name} has no 9P, and virtme-ng needs the virtiofs daemon of Debian 13: "
            "boot a generic kernel, or without --backend vng"
        )
    return usable


def _write_record(kernel: BuiltKernel, folder: Path, way: Way, argv: Sequence[str]) -> None:
    record = {
        "kernel": kernel.name,
        "release": kernel.release,
        "accelerator": way.accelerator,
        "transport": way.transport,
        "backend": shlex.join(argv),
    }
    (folder / "vm.json").write_text(json.dumps(record, indent=1) + "\n")
