"""A cgroup for each started process: CPU time of its whole process tree, and a way to kill all of it.

getrusage knows a child only once its parent has waited for it, and a process
group loses whoever calls setsid. A cgroup (version 2) keeps both: cpu.stat
counts every process that ever was in it, and cgroup.kill (Linux 5.14) reaches
all that are. No controller is needed for that, so a hybrid machine will do.

The cgroups of this program lie in one folder below its own cgroup. A keeper, a
process of its own, removes them when this program is gone, SIGKILL included.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple

_POLL_S = 0.001
_EMPTY_S = 5.0  # for the kernel to take down what was killed
# Ends what is left and removes the folder, once nobody holds its stdin any more.
_KEEP = """
read -r _
for group in "$0"/*/; do echo 1 >"$group/cgroup.kill"; done 2>/dev/null
for try in 1 2 3 4 5 6 7 8 9; do
    rmdir "$0"/*/ 2>/dev/null
    rmdir "$0" 2>/dev/null && exit
    sleep 0.0$try
done
"""


class Used(NamedTuple):
    """CPU seconds."""

    user_s: float
    system_s: float


class Cgroup:
    """One cgroup. `release` it when its process has been waited for."""

    def __init__(self, path: Path, area: _Area) -> None:
        self.path = path
        self._area = area

    def used(self) -> Used:
        """What the processes that are or were in it used."""
        lines = (self.path / "cpu.stat").read_text().splitlines()
        found = dict(line.split() for line in lines)
        return Used(int(found["user_usec"]) / 1e6, int(found["system_usec"]) / 1e6)

    def kill(self) -> None:
        """SIGKILL to every process in it. Before Linux 5.14 this does nothing."""
        with suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def release(self) -> Used:
        """End what is still in it and remove it: what it used in all."""
        self.kill()
        deadline = time.monotonic() + _EMPTY_S
        while self._populated() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        used = self.used()
        self._area.remove(self.path)
        return used

    def _populated(self) -> bool:
        return "populated 1" in (self.path / "cgroup.events").read_text()


class _Area:
    """The folder of this program's cgroups. It and its keeper are there while one of them is."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = count()
        self._existing: set[Path] = set()
        self._keeper: subprocess.Popen[bytes] | None = None

    def make(self) -> Cgroup | None:
        """A new cgroup; None where this user or machine has none to give."""
        folder = _folder()
        if folder is None:
            return None
        with self._lock:
            path = folder / str(next(self._numbers))
            try:
                folder.mkdir(exist_ok=True)
                if self._keeper is None:
                    self._keeper = _keeper(folder)
                path.mkdir()
            except OSError:
                return None
            self._existing.add(path)
        return Cgroup(path, self)

    def remove(self, path: Path) -> None:
        with self._lock:
            self._existing.discard(path)
            with suppress(OSError):  # a process that cannot die now: the keeper tries again
                path.rmdir()
            if not self._existing and self._keeper is not None:
                assert self._keeper.stdin is not None
                self._keeper.stdin.close()
                self._keeper.wait()
                self._keeper = None


def _keeper(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sh", "-c", _KEEP, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0
    )


@cache
def own_cgroup() -> Path | None:
    """The folder of this process's cgroup in the version 2 hierarchy; None where none is mounted."""
    with suppress(OSError):
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        points = [fields[4] for fields in mounts if fields[fields.index("-") + 1] == "cgroup2"]
        entries = Path("/proc/self/cgroup").read_text().splitlines()
        paths = [line.removeprefix("0::/") for line in entries if line.startswith("0::/")]
        if points and paths:
            return Path(points[0]) / paths[0]
    return None


def ours() -> list[Path]:
    """The cgroups that this program has made and that are still there."""
    folder = _folder()
    return (
        [folder, *(path for path in folder.iterdir() if path.is_dir())] if folder and folder.exists() else []
    )


def _folder() -> Path | None:
    above = own_cgroup()
    return above / f"testbed-{os.getpid()}" if above else None


_area = _Area()
make = _area.make
