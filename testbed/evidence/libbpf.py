"""ctypes bindings to the few functions of libbpf 1.x that load, attach and read maps.

Nothing is pinned: programs, maps and attachments live by this process's
descriptors and go with it, SIGKILL included.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_longlong, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from testbed import available
from testbed.errors import MissingCapability, TestbedError

# What the kernel says for its own errors, beyond errno; seen when the BTF of a tracepoint is missing.
_NO_TRACEPOINT = "failed to find kernel BTF type ID"
_NO_BTF = "failed to find valid kernel BTF"
_WARN = 0
_ANY = 0
_STATS_RUN_TIME = 0
_STALE = "not in the compiled object, which is of another version; compile it with scripts/setup.sh"


class Object:
    """A loaded BPF object file: its programs verified, its maps made. Close it when done."""

    def __init__(self, path: Path) -> None:
        """Load `path`. MissingCapability where this kernel or user cannot; the text is libbpf's own."""
        self._lib = library()
        self._object: int | None = None
        if not path.exists():
            raise MissingCapability(f"{path.name} is not compiled: run python -m testbed.evidence.compile")
        with _Log() as log:
            opened = self._lib.bpf_object__open_file(str(path).encode(), None)
            if not opened:
                raise TestbedError(f"{path.name}: {log.about('libbpf cannot read it')}")
            status = self._lib.bpf_object__load(opened)
            if status:
                self._lib.bpf_object__close(opened)
                raise _load_error(path.name, -status, log)
        self._object = opened

    def attach(self, program: str) -> Link:
        """Attach `program` to what its section names, until the link is closed."""
        found = self._lib.bpf_object__find_program_by_name(self._object, program.encode())
        if not found:
            raise TestbedError(f"BPF program {program}: {_STALE}")
        with _Log() as log:
            link = self._lib.bpf_program__attach(found)
            if not link:
                raise TestbedError(f"BPF program {program}: {log.about('cannot attach')}")
        return Link(self._lib, link)

    def map(self, name: str) -> Map:
        """The map called `name`."""
        found = self._lib.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise TestbedError(f"BPF map {name}: {_STALE}")
        return Map(self._lib, found)

    def missed(self, program: str) -> int:
        """Events that `program` missed since it was loaded, because it already ran on that CPU."""
        return int(self._info(program).recursion_misses)

    def run_time(self, program: str) -> tuple[int, int]:
        """Nanoseconds in `program` and its calls since it was loaded, those under `run_statistics`."""
        info = self._info(program)
        return int(info.run_time_ns), int(info.run_cnt)

    def close(self) -> None:
        """Unload; idempotent."""
        if self._object is not None:
            self._lib.bpf_object__close(self._object)
            self._object = None

    def _info(self, program: str) -> _ProgInfo:
        found = self._lib.bpf_object__find_program_by_name(self._object, program.encode())
        info = _ProgInfo()
        size = c_uint32(ctypes.sizeof(info))
        if self._lib.bpf_obj_get_info_by_fd(self._lib.bpf_program__fd(found), byref(info), byref(size)):
            raise _system_error(f"BPF program {program}: cannot read its counters")
        return info


class Link:
    """One program attached."""

    def __init__(self, lib: ctypes.CDLL, link: int) -> None:
        self._lib = lib
        self._link: int | None = link

    def close(self) -> None:
        """Detach; idempotent."""
        if self._link is not None:
            self._lib.bpf_link__destroy(self._link)
            self._link = None


class Map:
    """A map's entries as bytes. A per-CPU map's value is all CPUs' values, each padded to 8 bytes."""

    def __init__(self, lib: ctypes.CDLL, handle: int) -> None:
        self._lib = lib
        self._fd = lib.bpf_map__fd(handle)
        self.key_size = int(lib.bpf_map__key_size(handle))
        self.max_entries = int(lib.bpf_map__max_entries(handle))
        per_cpu = "percpu" in (lib.libbpf_bpf_map_type_str(lib.bpf_map__type(handle)) or b"").decode()
        size = int(lib.bpf_map__value_size(handle))
        self.value_size = (size + 7) // 8 * 8 * lib.libbpf_num_possible_cpus() if per_cpu else size

    def lookup(self, key: bytes) -> bytes:
        """The value at `key`. KeyError when there is none."""
        value = ctypes.create_string_buffer(self.value_size)
        if self._lib.bpf_map_lookup_elem(self._fd, key, value):
            if ctypes.get_errno() == errno.ENOENT:
                raise KeyError(key)
            raise _system_error("BPF map: cannot read")
        return value.raw

    def update(self, key: bytes, value: bytes) -> None:
        """Set the value at `key`."""
        if self._lib.bpf_map_update_elem(self._fd, key, value, _ANY):
            raise _system_error("BPF map: cannot write")

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry of a hash, by one system call for all of them (Linux 5.6)."""
        return self._batch(self._lib.bpf_map_lookup_batch)

    def take(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry of a hash, which is empty afterwards."""
        return self._batch(self._lib.bpf_map_lookup_and_delete_batch)

    def _batch(self, call: Callable[..., int]) -> Iterator[tuple[bytes, bytes]]:
        keys = ctypes.create_string_buffer(self.key_size * self.max_entries)
        values = ctypes.create_string_buffer(self.value_size * self.max_entries)
        count, position = c_uint32(self.max_entries), c_uint32()
        status = call(self._fd, None, byref(position), keys, values, byref(count), None)
        if status and ctypes.get_errno() != errno.ENOENT:  # ENOENT: that was all of it
            raise _system_error("BPF map: cannot read")
        all_keys, all_values = memoryview(keys), memoryview(values)
        for index in range(count.value):
            key, value = index * self.key_size, index * self.value_size
            yield (
                bytes(all_keys[key : key + self.key_size]),
                bytes(all_values[value : value + self.value_size]),
            )


@cache
def library() -> ctypes.CDLL:
    """libbpf 1.x. MissingCapability where it does not load."""
    names = (name for name, _, _ in _SIGNATURES)
    lib = available.library("libbpf.so.1", names, "apt-get install libbpf1")
    for name, result, arguments in _SIGNATURES:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    lib.libbpf_set_print(_PRINTER)
    return lib


def version() -> str:
    """libbpf's version as it prints it, for example `v1.1`."""
    return str(library().libbpf_version_string().decode())


def program_ids() -> set[int]:
    """Ids of all BPF programs of this kernel, whoever loaded them. Needs root."""
    found: set[int] = set()
    position = c_uint32()
    while library().bpf_prog_get_next_id(position, byref(position)) == 0:
        found.add(position.value)
    return found


@contextmanager
def run_statistics() -> Iterator[None]:
    """Every BPF program of this kernel counts its calls and their time inside the block (Linux 5.8).

    Each call then takes longer by two readings of the clock, one of which counts as the program's.
    """
    statistics = library().bpf_enable_stats(_STATS_RUN_TIME)
    if statistics < 0:
        raise _system_error("BPF statistics: cannot enable them")
    try:
        yield
    finally:
        os.close(statistics)


class _ProgInfo(ctypes.Structure):
    """struct bpf_prog_info of include/uapi/linux/bpf.h, as far as recursion_misses (Linux 5.12)."""

    _fields_ = [
        ("_before", ctypes.c_uint8 * 192),
        ("run_time_ns", c_uint64),
        ("run_cnt", c_uint64),
        ("recursion_misses", c_uint64),
    ]


_PRINT = ctypes.CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
_BATCH = [c_int, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_uint32), c_void_p]
_SIGNATURES: list[tuple[str, Any, list[Any]]] = [
    ("bpf_object__open_file", c_void_p, [c_char_p, c_void_p]),
    ("bpf_object__load", c_int, [c_void_p]),
    ("bpf_object__close", None, [c_void_p]),
    ("bpf_object__find_program_by_name", c_void_p, [c_void_p, c_char_p]),
    ("bpf_object__find_map_by_name", c_void_p, [c_void_p, c_char_p]),
    ("bpf_program__attach", c_void_p, [c_void_p]),
    ("bpf_program__fd", c_int, [c_void_p]),
    ("bpf_link__destroy", c_int, [c_void_p]),
    ("bpf_map__fd", c_int, [c_void_p]),
    ("bpf_map__type", c_int, [c_void_p]),
    ("bpf_map__key_size", c_uint32, [c_void_p]),
    ("bpf_map__value_size", c_uint32, [c_void_p]),
    ("bpf_map__max_entries", c_uint32, [c_void_p]),
    ("bpf_map_lookup_elem", c_int, [c_int, c_char_p, c_void_p]),
    ("bpf_map_update_elem", c_int, [c_int, c_char_p, c_char_p, c_longlong]),
    ("bpf_map_lookup_batch", c_int, _BATCH),
    ("bpf_map_lookup_and_delete_batch", c_int, _BATCH),
    ("bpf_prog_get_next_id", c_int, [c_uint32, POINTER(c_uint32)]),
    ("bpf_enable_stats", c_int, [c_int]),
    ("bpf_obj_get_info_by_fd", c_int, [c_int, c_void_p, POINTER(c_uint32)]),
    ("libbpf_bpf_map_type_str", c_char_p, [c_int]),
    ("libbpf_num_possible_cpus", c_int, []),
    ("libbpf_set_print", c_void_p, [_PRINT]),
    ("libbpf_version_string", c_char_p, []),
]

_libc = ctypes.CDLL(None)
_libc.vsnprintf.argtypes = [c_void_p, c_size_t, c_char_p, c_void_p]
_heard: list[str] | None = None


def _keep_line(level: int, form: bytes, arguments: int) -> int:
    """libbpf's print callback: keep warnings while somebody listens, print nothing."""
    if level == _WARN and _heard is not None:
        text = ctypes.create_string_buffer(4096)
        _libc.vsnprintf(text, len(text), form, arguments)
        _heard.append(text.value.decode(errors="replace").strip())
    return 0


_PRINTER = _PRINT(_keep_line)  # held here: libbpf keeps only its address


class _Log:
    """What libbpf warned about inside the block."""

    def __enter__(self) -> _Log:
        global _heard
        self.lines = _heard = []
        return self

    def __exit__(self, *_: object) -> None:
        global _heard
        _heard = None

    def about(self, failure: str) -> str:
        """One line: `failure` (libbpf: its first line)."""
        first = self.lines[0].splitlines()[0] if self.lines else os.strerror(ctypes.get_errno())
        return f"{failure} ({first.removeprefix('libbpf: ')})"


def _load_error(name: str, code: int, log: _Log) -> TestbedError:
    text = "\n".join(log.lines)
    if code == errno.EPERM and os.geteuid() != 0:
        return MissingCapability("packet sizes by BPF need root (or CAP_BPF and CAP_PERFMON)")
    if _NO_TRACEPOINT in text:
        return MissingCapability(
            "this kernel has BTF but no BPF on tracepoints: it was built without CONFIG_BPF_EVENTS "
            f"(libbpf: {_NO_TRACEPOINT})"
        )
    if _NO_BTF in text or not Path("/sys/kernel/btf/vmlinux").exists():
        return MissingCapability("this kernel has no BTF: it was built without CONFIG_DEBUG_INFO_BTF")
    return TestbedError(f"{name}: {log.about(f'the kernel refuses it: {os.strerror(code)}')}")


def _system_error(doing: str) -> TestbedError:
    return TestbedError(f"{doing}: {os.strerror(ctypes.get_errno())}")
