"""The journal of a named lab, written before anything is made, and the lock of its name."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from testbed.errors import InputError, TestbedError
from testbed.lab.baseline import Baseline
from testbed.nodes.borrowed import Borrowed
from testbed.topology.names import lab_name
from testbed.topology.spec import Topology
from testbed.unfinished import write_whole

RUN_DIR = Path("/run/testbed")


class Journal(BaseModel):
    """A named lab as it is meant to be. `building` until all of it is up; a killed `up` leaves it so."""

    model_config = ConfigDict(frozen=True)

    name: str
    status: Literal["building", "up"]
    source: str
    pid: int
    namespaces: dict[str, str]
    borrowed: dict[str, tuple[Borrowed, ...]] = Field(
        default_factory=dict, description="node -> devices of this machine in it, as they were"
    )
    stated: Topology = Field(description="what the file said")
    topology: Topology = Field(description="the same with what `testbed set` changed since")
    built: dict[str, Baseline] = Field(
        default_factory=dict, description="`node:device` -> what the kernel chose where the file says nothing"
    )

    def write(self) -> None:
        """Atomically, so that a reader sees the old or the new one."""
        RUN_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
        record = self.model_dump(mode="json", exclude_unset=True, by_alias=True)
        write_whole(_path(self.name), f"{json.dumps(record, indent=1)}\n".encode())


def read_journal(name: str) -> Journal | None:
    """The journal of a lab, None when there is none. TestbedError when it cannot be read."""
    try:
        text = _path(name).read_text()
    except FileNotFoundError:
        return None
    try:
        return Journal.model_validate_json(text)
    except ValidationError:
        raise TestbedError(
            f"{_path(name)}: not readable by this version; remove the lab with `testbed down {name}`"
        ) from None


def forget_journal(name: str) -> None:
    """Remove the journal of a lab that is gone."""
    for path in (_path(name), _path(name).with_suffix(".new")):
        path.unlink(missing_ok=True)


def journalled() -> list[str]:
    """The names of the labs that have a journal."""
    return sorted(path.stem for path in RUN_DIR.glob("*.json")) if RUN_DIR.is_dir() else []


def check_name(name: str) -> str:
    """`name`, if a lab may be called so. InputError otherwise."""
    try:
        return lab_name(name)
    except ValueError as error:
        raise InputError(str(error)) from None


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Nobody else changes the lab `name` within the block. TestbedError at once when somebody does.

    InputError for what is no lab's name.

    The lock is flock's, which ends with its holder however that ends; the file
    is only its handle and goes with it.
    """
    check_name(name)
    RUN_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = RUN_DIR / f"{name}.lock"
    descriptor = _lock(path, name)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _lock(path: Path, name: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode().strip() or "another process"
            os.close(descriptor)
            raise TestbedError(
                f"lab '{name}' is being changed by process {holder}; try again when it is done"
            ) from None
        if _same_file(descriptor, path):
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            return descriptor
        os.close(descriptor)  # its last holder removed it between our open and our lock


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _path(name: str) -> Path:
    return RUN_DIR / f"{name}.json"
