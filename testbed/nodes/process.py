"""Start processes in a namespace: pinned to CPUs, CPU time measured, killed when this program ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import IO, Any

import psutil

from testbed.available import output_of
from testbed.errors import InputError, MissingCapability
from testbed.netlink.namespaces import entered
from testbed.nodes import cgroup
from testbed.nodes.cgroup import Cgroup, Used
from testbed.nodes.node import Ended


class LocalProcess:
    """A process of this machine, with a process group and, where there are cgroups, a cgroup of its own."""

    def __init__(self, popen: subprocess.Popen[bytes], role: str, group: Cgroup | None = None) -> None:
        self.role = role
        self.pid = popen.pid
        self.stdin: IO[bytes] | None = popen.stdin
        self.stdout: IO[bytes] | None = popen.stdout
        self._popen = popen
        self._group = group
        self._pidfd = os.pidfd_open(popen.pid)
        self._lock = Lock()
        self._ended: Ended | None = None

    def wait(self, timeout: float) -> Ended:
        """Its end. TimeoutError after `timeout` seconds (the process goes on)."""
        ended = self._wait(timeout)
        if ended is None:
            raise TimeoutError(f"{self.role} (pid {self.pid}) is still running after {timeout:g} s")
        return ended

    def poll(self) -> Ended | None:
        """Its end, None while it runs."""
        return self._wait(0)

    def kill(self) -> Ended:
        """End it now (SIGKILL), with what it started. Harmless when it has ended."""
        with self._lock:
            if self._ended is None:
                self._kill_group()
        return self.wait(timeout=10)

    def used(self) -> Used:
        """CPU seconds so far, of it and of all that it started. Without a cgroup: of what was waited for."""
        with self._lock:
            if self._ended is not None:
                return Used(self._ended.user_s, self._ended.system_s)
            if self._group is not None:
                return self._group.used()
            return _waited_for(self.pid)

    def let_go(self) -> None:
        """Stop watching the process, which goes on; this object may not be used afterwards. Idempotent."""
        with self._lock:
            if self._ended is None and self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1

    def _wait(self, timeout: float) -> Ended | None:
        if self._ended is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(timeout * 1000):
                self._reap()
        return self._ended

    def _reap(self) -> None:
        """Take its status and use. Until then its pid stays taken: the signal can hit nobody else."""
        with self._lock:
            if self._ended is not None:
                return
            self._kill_group()
            _, status, usage = os.wait4(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            self._popen.returncode = code
            used = self._group.release() if self._group else Used(usage.ru_utime, usage.ru_stime)
            self._ended = Ended(code, *used)
            os.close(self._pidfd)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._group is not None:
            self._group.kill()


def _waited_for(pid: int) -> Used:
    """What the process and the children that it has waited for used; nothing where it has ended."""
    with suppress(psutil.NoSuchProcess):
        times = psutil.Process(pid).cpu_times()
        return Used(times.user + times.children_user, times.system + times.children_system)
    return Used(0.0, 0.0)


def start(
    namespace: int,
    argv: Sequence[str],
    *,
    role: str,
    cpus: Collection[int] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    cwd: Path | None = None,
    mark: str | None = None,
) -> LocalProcess:
    """Start `argv` in `namespace`, pinned to `cpus`. MissingCapability when its program is not installed.

    It ends with this program, unless it has a `mark`: then `end_marked` is what ends it.
    """
    if mark is None:
        require()
    if shutil.which(argv[0], path=(env or os.environ).get("PATH")) is None:
        raise MissingCapability(f"{argv[0]}: not installed, or not in PATH")
    group = cgroup.make() if mark is None else None
    spawn = partial(
        subprocess.Popen,
        [*_ends_with_us(group), *argv] if mark is None else list(argv),
        env=env if mark is None else {**(env or os.environ), MARK: mark},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL if mark and stderr is None else stderr,
        cwd=cwd,
        process_group=0,
    )
    try:
        popen = _starter.submit(_spawn, namespace, cpus, spawn).result()
    except BaseException:
        if group is not None:
            group.release()
        raise
    return LocalProcess(popen, role, group)


def require() -> None:
    """MissingCapability where no process can be started that ends with this program."""
    _try_starter(os.environ.get("PATH", ""))


@cache
def _try_starter(path: str) -> None:
    output_of([*_ends_with_us(None), "true"], "apt-get install util-linux")


def end_marked(mark: str) -> None:
    """End every process on this machine that carries `mark`, and return when they are gone."""
    wanted = f"{MARK}={mark}".encode()
    for pid in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if wanted in _environment(pid):
                with suppress(ProcessLookupError):  # it ended by itself meanwhile
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                select.select([descriptor], [], [], 10)
                with suppress(ChildProcessError):  # one that this program started would stay a zombie
                    os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
        finally:
            os.close(descriptor)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


MARK = "TESTBED_LAB"

# Killed by the kernel when the thread that started it ends, and that is when this
# program ends, SIGKILL included. setpriv and sh become the program itself;
# preexec_fn could deadlock on a lock that another thread holds. Where this program
# died before the signal was asked for, nobody would send it: sh looks. Where there
# is a cgroup, sh joins it, so that nothing of the program runs outside.
_BECOME = (
    """[ "$PPID" = "$0" ] || exit; [ -z "$1" ] || echo $$ >"$1/cgroup.procs" || exit; shift; exec "$@" """
)


def _ends_with_us(group: Cgroup | None) -> list[str]:
    """What comes before a command line, so that the command ends with this program."""
    argv = ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", _BECOME, str(os.getpid())]
    return [*argv, str(group.path) if group else ""]


# One thread starts every process: it may enter a namespace and take a CPU mask,
# which the child inherits, while every other thread stays as it is.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-start")


def _spawn(namespace: int, cpus: Collection[int] | None, spawn: Any) -> subprocess.Popen[bytes]:
    mask = os.sched_getaffinity(0)
    try:
        if cpus is not None:
            _pin(cpus)
        with entered(namespace):
            process: subprocess.Popen[bytes] = spawn()
            return process
    finally:
        os.sched_setaffinity(0, mask)


def _pin(cpus: Collection[int]) -> None:
    try:
        os.sched_setaffinity(0, cpus)
    except (OSError, ValueError):
        numbers = ", ".join(map(str, sorted(cpus))) or "none"
        raise InputError(
            f"cannot pin to CPU {numbers}: this machine has {os.cpu_count()}, numbered from 0"
        ) from None
