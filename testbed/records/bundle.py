"""A run as one file: what a developer sends and a reviewer reproduces."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj

from testbed.available import scratch
from testbed.errors import InputError, TestbedError

RUN = "run.json"
LEFT_OUT = ("vm",)  # boot logs and sockets of VMs: large, and no evidence


def export_run(folder: Path, output: Path) -> None:
    """Write the run's folder to `output`, a gzipped tar with one folder in it."""
    scratch = output.with_name(f".{output.name}.part")
    try:
        with tarfile.open(scratch, "w:gz") as archive:
            for path in sorted(folder.iterdir()):
                if path.name not in LEFT_OUT and not path.name.startswith("."):
                    archive.add(path, f"{folder.name}/{path.name}")
        scratch.replace(output)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise TestbedError(f"{output}: cannot write: {error.strerror}") from None


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The folder of the run in a tar, for as long as the block lasts. InputError for what holds no run."""
    with scratch() as folder:
        try:
            with tarfile.open(path) as archive:
                _extract(archive, folder)
        except (tarfile.TarError, EOFError, OSError):
            raise InputError(f"{path}: not a tar of a run; make one with `testbed export`") from None
        found = sorted(folder.glob(f"**/{RUN}"))
        if not found:
            raise InputError(f"{path}: holds no run: no {RUN} in it")
        yield found[0].parent


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Plain files only, and only below `folder`: somebody else made this tar."""
    for member in archive:
        content = archive.extractfile(member) if member.isfile() else None
        target = (folder / member.name).resolve()
        if content is None or not target.is_relative_to(folder.resolve()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            copyfileobj(content, file)
