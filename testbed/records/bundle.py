"""Pack a run into one file, and unpack one safely: its content is not trusted."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Self

from testbed.available import scratch
from testbed.errors import InputError, TestbedError, printable
from testbed.records.store import find_run
from testbed.unfinished import whole_file

RUN = "run.json"
LEFT_OUT = ("vm",)  # boot logs and sockets of VMs: large, and no evidence

# What is unpacked at most. A round is some 20 KB and three files of the tools' own output.
MAX_BYTES = 1 << 30
MAX_FILES = 50_000
MAX_HEADER = 1 << 16  # of a long name or of pax records, which tarfile reads as a whole


def export_run(folder: Path, output: Path) -> None:
    """Write the run's folder to `output`, a gzipped tar with one folder in it."""
    try:
        with whole_file(output) as scratch, tarfile.open(scratch, "w:gz") as archive:
            for path in sorted(folder.iterdir()):
                if path.name not in LEFT_OUT and not path.name.startswith("."):
                    archive.add(path, f"{folder.name}/{path.name}")
    except OSError as error:
        raise TestbedError(f"{output}: cannot write: {error.strerror}") from None


@contextmanager
def run_folder(name: str, results: Path) -> Iterator[Path]:
    """The folder of a run: an archive's, for as long as the block lasts, or what `find_run` finds."""
    if Path(name).is_file():
        with unpacked(Path(name)) as folder:
            yield folder
    else:
        yield find_run(name, results)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The folder of the run in a tar, for as long as the block lasts.

    InputError for what holds no run, is no plain file, leads out of the folder, or is above the limits.
    """
    with scratch() as folder:
        try:
            with path.open("rb") as file:
                _extract(path, file, folder)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, UnicodeError):
            raise InputError(f"{path}: not a tar of a run; make one with `testbed export`") from None
        except OSError as error:
            reason = error.strerror or error
            raise TestbedError(f"{path}: cannot unpack it into {folder}: {reason}; see TMPDIR") from None
        found = sorted(folder.glob(f"*/{RUN}"))
        if len(found) != 1:
            what = "several" if found else f"none: no FOLDER/{RUN} in it"
            raise InputError(f"{path}: an archive holds one run, this holds {what}")
        yield found[0].parent


def _extract(path: Path, file: IO[bytes], folder: Path) -> None:
    zipped = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    content = gzip.GzipFile(fileobj=file) if zipped else file
    with tarfile.open(fileobj=_Bounded(path, content), mode="r|", tarinfo=_Member) as archive:
        for number, member in enumerate(archive):
            if number >= MAX_FILES:
                raise InputError(f"{path}: holds more than {MAX_FILES:,} files, no run has so many")
            parts = PurePosixPath(member.name).parts
            shown = printable(member.name)
            if member.name.startswith("/") or ".." in parts or not member.name.isprintable():
                raise InputError(f"{path}: '{shown}' leads out of the run's folder; nothing is read")
            if not (member.isfile() or member.isdir()):
                raise InputError(f"{path}: '{shown}' is no plain file; nothing is read")
            if hasattr(tarfile, "data_filter"):
                archive.extract(member, folder, set_attrs=False, filter="data")
            else:  # Python 3.11.2: the checks above are all that the filter adds for plain files
                archive.extract(member, folder, set_attrs=False)


class _Member(tarfile.TarInfo):
    """A member's header. One that only describes the next member is read as a whole: it has a limit."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]  # typeshed: str, CPython: None too
        plain = member.type in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE)
        if not plain and member.size > MAX_HEADER:
            raise tarfile.ReadError(f"a header of {member.size} bytes")
        return member


class _Bounded(io.BufferedIOBase):
    """What is read of the archive's content, until it is too much: a few bytes can unzip to terabytes."""

    def __init__(self, path: Path, content: IO[bytes] | gzip.GzipFile) -> None:
        self._path, self._content, self._left = path, content, MAX_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        most = self._left + 1
        found = self._content.read(most if size is None or size < 0 else min(size, most))
        self._left -= len(found)
        if self._left < 0:
            raise InputError(f"{self._path}: unpacks to more than {MAX_BYTES >> 20} MiB, no run is so large")
        return found
