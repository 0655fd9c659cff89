"""The guest's initramfs: busybox, our init and agent, and the modules that its shares need."""

from __future__ import annotations

import gzip
import lzma
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import MissingCapability
from testbed.kernels.cache import BuiltKernel

# What each way of sharing folders needs, by the names of the modules where they are modules.
NEEDS = {
    "9p": ("virtio_pci", "virtio_console", "9pnet_virtio", "9p"),
    "virtiofs": ("virtio_pci", "virtio_console", "virtiofs"),
}
_GUEST = Path(__file__).parent / "root"
_DIRECTORY, _FILE, _DEVICE = 0o040755, 0o100755, 0o020600


@dataclass(frozen=True)
class Entry:
    """A file of the archive (mode, content, device number)."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def initramfs(kernel: BuiltKernel, transport: str, settings: Mapping[str, str]) -> bytes:
    """The gzipped cpio archive that boots `kernel` over `transport` (`9p` or `virtiofs`).

    settings: shell variables that init and agent read (keep, shared, folder, ...).
    """
    modules = needed_modules(kernel, NEEDS[transport])
    conf = "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())
    entries = [
        *(Entry(name, _DIRECTORY) for name in ("bin", "dev", "proc", "sys", "modules")),
        Entry("dev/console", _DEVICE, device=(5, 1)),
        Entry("dev/null", _DEVICE, device=(1, 3)),
        Entry("bin/busybox", _FILE, _busybox().read_bytes()),
        Entry("init", _FILE, (_GUEST / "init").read_bytes()),
        Entry("agent", _FILE, (_GUEST / "agent").read_bytes()),
        Entry("guest.conf", _FILE, conf.encode()),
        Entry("modules/order", _FILE, "".join(f"{_plain(path)}\n" for path in modules).encode()),
        *(Entry(f"modules/{_plain(path)}", _FILE, _uncompressed(path)) for path in modules),
    ]
    return gzip.compress(cpio(entries), compresslevel=1)


def cpio(entries: Iterable[Entry]) -> bytes:
    """An archive in the format that the kernel reads (newc, see Documentation/driver-api/early-userspace)."""
    parts = []
    for number, entry in enumerate([*entries, Entry("TRAILER!!!", 0)], start=1):
        name = entry.name.encode() + b"\0"
        major, minor = entry.device
        header = [number, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, major, minor, len(name), 0]
        parts.append(_padded(b"070701" + b"".join(b"%08X" % value for value in header) + name))
        parts.append(_padded(entry.content))
    return b"".join(parts)


def needed_modules(kernel: BuiltKernel, names: Iterable[str]) -> list[Path]:
    """The module files for `names`, each after those it depends on. A built-in one needs none."""
    base = kernel.modules / "lib/modules" / kernel.release
    table = base / "modules.dep"
    if not table.exists():
        return []
    depends = {}
    for line in table.read_text().splitlines():
        path, _, others = line.partition(":")
        depends[_module(path)] = [path, *others.split()]
    order: dict[Path, None] = {}
    for name in names:
        # modules.dep lists what must come first last.
        order.update((base / path, None) for path in reversed(depends.get(name, [])))
    return list(order)


def _module(path: str) -> str:
    return Path(path).name.split(".ko")[0].replace("-", "_")


def _plain(path: Path) -> str:
    return path.name.split(".ko")[0] + ".ko"


def _uncompressed(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(content)
    if path.suffix == ".gz":
        return gzip.decompress(content)
    return content


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 4)


def _busybox() -> Path:
    found = shutil.which("busybox")
    if not found:
        raise MissingCapability("booting a kernel needs a static busybox: apt-get install busybox-static")
    path = Path(found)
    if b"/ld-linux" in path.read_bytes()[:4096]:
        raise MissingCapability(f"{found} is not static: apt-get install busybox-static")
    return path
