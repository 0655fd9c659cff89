"""The folder of a run: write it round by round, find it, read it back.

rounds.jsonl is held open and locked (flock) by the run that writes it. A folder
whose run.json says `running` while nobody holds that lock was interrupted: a
killed run needs no clean-up to be told from a live one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec
from pydantic import ValidationError

from testbed.errors import InputError, TestbedError
from testbed.records.round import Round
from testbed.records.run import SCHEMA, Run, Status
from testbed.unfinished import unfinished, write_whole

RUN = "run.json"
ROUNDS = "rounds.jsonl"
RAW = "raw"
VM = "vm"  # boot logs and sockets of VMs


def now() -> str:
    """This moment, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def results_folder(requested: Path | None = None) -> Path:
    """Where runs go: the `requested` folder, else $TESTBED_RESULTS, else results/ here."""
    return requested or Path(os.environ.get("TESTBED_RESULTS", "results"))


class RunWriter:
    """The one writer of a run's folder. Closing it gives the lock back."""

    def __init__(self, folder: Path, run: Run) -> None:
        """Take over `folder`, which exists. TestbedError when another run is writing it.

        InputError where a part of it is a link: somebody else may have made the folder.
        """
        self.folder = folder
        self.run = run
        self.raw = folder / RAW
        for path in (folder / ROUNDS, self.raw, folder / VM):
            if path.is_symlink() or (path.exists() and path.is_file() != (path.name == ROUNDS)):
                raise InputError(
                    f"{path}: not a run's own: a link, or no {'file' if path.name == ROUNDS else 'folder'}"
                )
        try:
            self.raw.mkdir(exist_ok=True)
            self._rounds: IO[bytes] = (folder / ROUNDS).open("ab")
        except OSError as error:
            raise TestbedError(f"{folder}: cannot write: {error.strerror}") from None
        try:
            fcntl.flock(self._rounds, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._rounds.close()
            raise TestbedError(f"{folder}: another testbed run is writing it; wait until it ends") from None
        for scratch in folder.glob(f".{RUN}.*"):  # of a writer that was killed
            scratch.unlink(missing_ok=True)
        _end_torn_line(folder / ROUNDS, self._rounds)
        self._write_run()

    @classmethod
    def create(cls, results: Path, run: Run) -> RunWriter:
        """A new folder below `results`. `run.run_id` gets a number when that name is taken.

        It is made under a hidden name, and gets its own with run.json in it: a run that
        is killed meanwhile leaves nothing that looks like one, and the next run removes it.
        """
        with _hidden_folder(results, run.run_id) as hidden:
            writer = cls(hidden, run)
            for folder in _names(results, run.run_id):
                if not folder.exists() and writer._move(folder):
                    return writer
        raise AssertionError("there is always another name")

    def append(self, record: Round) -> None:
        """Write one round and put it on the disk."""
        self._rounds.write(msgspec.json.encode(record) + b"\n")
        self._rounds.flush()
        os.fsync(self._rounds.fileno())

    def update(self, **fields: Any) -> None:
        """Change fields of run.json, atomically."""
        self.run = self.run.model_copy(update=fields)
        self._write_run()

    def end(self, status: Status) -> None:
        """State how the run ended."""
        self.update(status=status, finished=now())

    def close(self) -> None:
        self._rounds.close()

    def discard_unless_measured(self) -> None:
        """Remove the folder of a run that failed before its first round, and an empty results folder."""
        if (self.folder / ROUNDS).stat().st_size == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()

    def _move(self, folder: Path) -> bool:
        """Give the folder its name; False when another run took that meanwhile."""
        if folder.name != self.run.run_id:
            self.update(run_id=folder.name)
        try:
            self.folder.rename(folder)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                return False
            raise TestbedError(f"{folder}: cannot make it: {error.strerror}") from None
        self.folder, self.raw = folder, folder / RAW
        return True

    def _write_run(self) -> None:
        write_run(self.folder, self.run)


def run_id(experiment: str) -> str:
    """`<UTC as 20261130T101500Z>-<experiment>`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{experiment}"


def write_run(folder: Path, run: Run) -> None:
    """Replace run.json in one step: a reader sees the old or the new one."""
    text = run.model_dump_json(by_alias=True, indent=1)
    try:
        write_whole(folder / RUN, f"{text}\n".encode(), durable=True)
    except OSError as error:
        raise TestbedError(f"{folder / RUN}: cannot write: {error.strerror}") from None


@dataclass
class StoredRun:
    """A run read back. `problems` grows while its rounds are iterated."""

    folder: Path
    run: Run
    problems: list[str] = field(default_factory=list)

    def rounds(self) -> Iterator[Round]:
        """The rounds in order of execution. A broken line is skipped and listed in `problems`."""
        decode = msgspec.json.Decoder(Round).decode
        path = self.folder / ROUNDS
        try:
            opened = path.open("rb")
        except OSError as error:
            self.problems.append(f"{path}: cannot read: {error.strerror}")
            return
        with opened as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    yield decode(line)
                except ValueError:
                    self.problems.append(f"{path}:{number}: not a whole round, left out")


def open_run(folder: Path) -> StoredRun:
    """Read a run's folder. InputError for what is no run, or one of a newer schema."""
    path = folder / RUN
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{folder}: not a run: it has no {RUN}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror}") from None
    try:
        run = Run.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise InputError(f"{path}: not a run: {where}: {first['msg']}") from None
    if run.schema_ > SCHEMA:
        raise InputError(
            f"{path}: schema {run.schema_} is newer than this testbed knows ({SCHEMA}); update testbed"
        )
    return StoredRun(folder, _settle(folder, run))


def find_run(name: str, results: Path) -> Path:
    """The folder of a run: a path, a run id below `results`, or `latest`."""
    if name == "latest":
        runs = sorted(path.parent for path in results.glob(f"[!.]*/{RUN}"))
        if not runs:
            raise InputError(f"{results}: holds no run yet; make one with `testbed run EXPERIMENT`")
        return max(runs, key=lambda folder: (folder / RUN).stat().st_mtime)
    for folder in (Path(name), results / name):
        if (folder / RUN).exists():
            return folder
    raise InputError(f"{name}: no such run here nor below {results}/")


def _settle(folder: Path, run: Run) -> Run:
    """A run that says `running` and has no writer was interrupted; say so, on disk where we may."""
    if run.status != "running" or _has_writer(folder):
        return run
    run = run.model_copy(update={"status": "interrupted"})
    if os.access(folder, os.W_OK):
        with contextlib.suppress(TestbedError):  # a full disk, say: the reader is told all the same
            write_run(folder, run)
    return run


def _has_writer(folder: Path) -> bool:
    try:
        with (folder / ROUNDS).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextlib.contextmanager
def _hidden_folder(results: Path, name: str) -> Iterator[Path]:
    with contextlib.ExitStack() as stack:
        try:
            results.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(unfinished(results, name))
        except OSError as error:
            raise TestbedError(f"{results}: cannot make a results folder: {error.strerror}") from None
        yield folder


def _names(results: Path, name: str) -> Iterator[Path]:
    yield results / name
    number = 2
    while True:
        yield results / f"{name}-{number}"
        number += 1


def _end_torn_line(path: Path, file: IO[bytes]) -> None:
    """A run killed in the middle of a line: end it, so that the next round starts its own."""
    with path.open("rb") as reader:
        if reader.seek(0, os.SEEK_END) == 0:
            return
        reader.seek(-1, os.SEEK_END)
        if reader.read(1) != b"\n":
            file.write(b"\n")
            file.flush()
