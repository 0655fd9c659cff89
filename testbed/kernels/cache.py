"""The cache of kernels: a folder for each, with its provenance."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from testbed.errors import InputError, TestbedError
from testbed.records.run import Kernel, Patch
from testbed.unfinished import unfinished
from testbed.versions import order_key, version_fits
from testbed.yamlfile import did_you_mean

RECORD = "kernel.json"
CAPABILITIES = "probe.json"


class Package(BaseModel):
    """A package of the archive that the kernel was unpacked from."""

    name: str
    version: str
    sha256: str


class Provenance(BaseModel):
    """kernel.json: what the kernel is and where it came from."""

    model_config = ConfigDict(extra="ignore")

    name: str
    release: str = Field(description="what uname -r prints in it")
    version: str = Field(description="the upstream version, 7.3.4")
    source: Literal["archive", "build"]
    flavour: str = Field("", description="of an archive's kernel: cloud or generic")
    created: str
    config_sha256: str = Field(description="of its options, as a run's record has it")
    packages: list[Package] = Field(default_factory=list)
    tree: str | None = Field(None, description="git tree hash of what was built, series included")
    base: str | None = Field(None, description="what the series was applied to")
    series: list[Patch] = Field(default_factory=list)
    compiler: str | None = None
    key: str | None = Field(None, description="hash of tree, config, compiler and arguments")
    warnings: list[str] = Field(default_factory=list, description="of the compiler, in files of the series")
    build_s: float | None = None


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel that can be booted."""

    folder: Path
    provenance: Provenance

    @property
    def name(self) -> str:
        return self.provenance.name

    @property
    def release(self) -> str:
        return self.provenance.release

    @property
    def image(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def modules(self) -> Path:
        """A folder laid out as `lib/modules/RELEASE` below it, for `modprobe -d`."""
        return self.folder

    def config(self) -> dict[str, str]:
        """Every option that is set: `CONFIG_VETH` -> `y`, `m` or a value."""
        return parse_config((self.folder / "config").read_text())

    def record(self) -> Kernel:
        """This kernel as a run's record names it (its command line is known once it runs)."""
        provenance = self.provenance
        return Kernel(
            release=provenance.release,
            version=provenance.version,
            config_sha256=provenance.config_sha256,
            series=provenance.series,
            build_key=provenance.key,
        )

    def capabilities(self) -> dict[str, Any] | None:
        """What `testbed probe` found inside it, or None before it was probed."""
        try:
            found: dict[str, Any] = json.loads((self.folder / CAPABILITIES).read_text())
        except FileNotFoundError:
            return None
        return found


def cache() -> Path:
    """The folder of everything that can be fetched or built again ($XDG_CACHE_HOME/testbed)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "testbed"


def kernels() -> list[BuiltKernel]:
    """Every kernel in the cache, the newest version last."""
    found = [_load(path.parent) for path in sorted((cache() / "kernels").glob(f"[!.]*/{RECORD}"))]
    return sorted(found, key=lambda kernel: (order_key(kernel.provenance.version), kernel.name))


def find(name: str) -> BuiltKernel:
    """The kernel called `name`: its name, its release, or the start of its version (`7.3`).

    `latest` is the newest from the archive. Of several that a version fits, the
    newest is meant, and of two flavours the cloud one, which boots faster; a
    kernel that was built is found by its name or release only.
    InputError names the nearest ones and how to get one.
    """
    have = kernels()
    for kernel in have:
        if name in (kernel.name, kernel.release):
            return kernel
    stock = [kernel for kernel in have if kernel.provenance.source == "archive"]
    fits = [kernel for kernel in stock if name == "latest" or version_fits(name, kernel.provenance.version)]
    if fits:
        return max(
            fits, key=lambda kernel: (order_key(kernel.provenance.version), kernel.name.endswith("cloud"))
        )
    names = [kernel.name for kernel in have]
    here = f" (here: {', '.join(names)})" if names else ""
    fetch = f"; get it with: testbed kernel fetch {name}" if re.match(r"\d|latest$", name) else ""
    raise InputError(f"no kernel '{name}'{did_you_mean(name, names)}{here}{fetch}")


def remove(kernel: BuiltKernel) -> None:
    """Delete the kernel from the cache."""
    shutil.rmtree(kernel.folder)


def save_capabilities(kernel: BuiltKernel, found: dict[str, Any]) -> None:
    """Keep what `testbed probe --json` printed inside it."""
    (kernel.folder / CAPABILITIES).write_text(json.dumps(found, indent=1))


@contextmanager
def adding(name: str) -> Iterator[Path]:
    """A folder to fill; a kernel called `name` once the block ends well, nothing otherwise.

    The block writes `vmlinuz`, `config` and `kernel.json`. A kernel of that name
    is replaced. TestbedError when there is no space.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+~=-]{0,99}", name):
        raise InputError(
            f"'{name}' is not a kernel's name: letters, digits and . _ + ~ = - only, at most 100"
        )
    parent = make_folder(cache() / "kernels")
    with space(parent), unfinished(parent, name) as folder:
        yield folder
        folder.chmod(0o755)
        target = parent / name
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


def make_folder(folder: Path) -> Path:
    """A folder of the cache, made where it is missing. TestbedError when it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TestbedError(f"{folder}: cannot make it: {error.strerror}; set XDG_CACHE_HOME") from None
    return folder


@contextmanager
def space(folder: Path) -> Iterator[None]:
    """Turns "no space left" and "not writable" inside the block into one line about `folder`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TestbedError(
                f"{folder}: no space left; free some (testbed kernel rm NAME) or set XDG_CACHE_HOME"
            ) from None
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise TestbedError(f"{folder}: cannot write: {error.strerror}; set XDG_CACHE_HOME") from None
        raise


def write_record(folder: Path, provenance: Provenance) -> None:
    """Write kernel.json."""
    (folder / RECORD).write_text(provenance.model_dump_json(indent=1) + "\n")


def config_hash(config: str) -> str:
    """The hash of a config's options, whatever their order and comments (hex SHA-256)."""
    lines = sorted(f"{name}={value}" for name, value in parse_config(config).items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def parse_config(text: str) -> dict[str, str]:
    """The options that a .config or a fragment sets; those "is not set" are `n`."""
    found = {}
    for line in text.splitlines():
        if match := re.match(r"(CONFIG_\w+)=(.*)", line.strip()):
            found[match[1]] = match[2].strip()
        elif match := re.match(r"# (CONFIG_\w+) is not set", line.strip()):
            found[match[1]] = "n"
    return found


def _load(folder: Path) -> BuiltKernel:
    return BuiltKernel(folder, Provenance.model_validate_json((folder / RECORD).read_text()))
