"""Programs and libraries that are there, that are not, and that do not run: what is told of each."""

import re
import shlex
from pathlib import Path

import pytest

from testbed import available, probing
from testbed.errors import MissingCapability

NO_LIBC = "{}: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by {})"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a program that prints `out` and `err` and ends with `status`; nothing else is in PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name, out="", err="", status=0):
        path = tmp_path / name
        lines = ["#!/bin/sh", *(f"echo {shlex.quote(line)}" for line in out.splitlines())]
        lines += [f"echo {shlex.quote(line)} >&2" for line in err.splitlines()]
        path.write_text("\n".join([*lines, f"exit {status}"]) + "\n")
        path.chmod(0o755)
        return path

    return make


# What each prints on Debian 12, and where known on others: its first lines.
PRINTED = [
    ("perf", "perf version 6.1.192", "6.1.192"),
    ("perf", "perf version 6.18.rc1.g0123456789ab", "6.18"),
    ("bpftrace", "bpftrace v0.17.0", "0.17.0"),
    ("tcpdump", "tcpdump version 4.99.3\nlibpcap version 1.10.3 (with TPACKET_V3)", "4.99.3"),
    ("ip", "ip utility, iproute2-6.1.0, libbpf 1.1.2", "6.1.0"),
    ("ethtool", "ethtool version 6.1", "6.1"),
    ("clang", "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu", "14.0.6"),
    ("qemu-system-x86_64", "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", "7.2.22"),
    ("busybox", "BusyBox v1.35.0 (Debian 1:1.35.0-4+b1) multi-call binary.", "1.35.0"),
    ("git", "git version 2.39.5", "2.39.5"),
    ("xz", "xz (XZ Utils) 5.4.1\nliblzma 5.4.1", "5.4.1"),
    ("vng", "virtme-ng 1.20", "1.20"),
    ("chromium", "Chromium 156.0.8078.114 built on Debian GNU/Linux 12 (bookworm)", "156.0.8078.114"),
]
CAPABILITIES = {"ip": "iproute2", "qemu-system-x86_64": "qemu"}


def found(command):
    """What `probe` makes of a program: its value and, where it is missing, why."""
    name = CAPABILITIES.get(command, command)
    capabilities = probing.find([name])
    return capabilities.values[name], capabilities.why.get(name)


@pytest.mark.parametrize(("name", "out", "version"), PRINTED)
def test_a_version_is_what_a_successful_run_prints_as_such(program, name, out, version):
    program(name, out)
    assert found(name) == (version, None)
    program(name, err=out)  # older tcpdump
    assert found(name) == (version, None)


@pytest.mark.parametrize("name", sorted({name for name, _, _ in PRINTED}))
def test_an_error_has_no_version(program, name):
    path = program(name, err=NO_LIBC.format(name, name), status=1)
    value, why = found(name)
    assert value is False
    assert why.startswith(
        f"{path} does not run: {name}: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38"
    )


def test_a_version_that_comes_with_a_failure_does_not_count(program):
    path = program("perf", "perf version 10.20.30", status=1)
    assert found("perf") == (False, f"{path} does not run: perf version 10.20.30 (Debian: linux-perf)")


def test_a_number_that_is_no_version_does_not_count(program):
    program("ethtool", "built for libc 2.38, on 2026.11.30")
    assert found("ethtool") == (True, None)


def test_a_program_that_fails_without_a_word_tells_its_exit_status(program):
    path = program("perf", status=2)
    assert found("perf") == (False, f"{path} does not run: exit status 2 (Debian: linux-perf)")


def test_a_file_that_is_no_program_does_not_run(program, tmp_path):
    program("git").write_bytes(b"\x7fELF and no more")
    value, why = found("git")
    assert value is False
    assert re.search(r"git does not run: .*Exec format error.* \(Debian: git\)", why)


def test_of_several_programs_all_that_are_missing_are_told_with_their_packages(program, tmp_path):
    program("make")
    with pytest.raises(MissingCapability) as caught:
        available.programs(
            "baking", {"make": "make", "oven": "kitchen", "hob": "kitchen"}, {f"{tmp_path}/flour": "mill"}
        )
    assert str(caught.value) == f"baking needs oven, hob, {tmp_path}/flour: apt-get install kitchen mill"


def test_of_several_programs_one_that_does_not_run_is_told(program, tmp_path):
    program("make")
    program("oven", err="no gas", status=1)
    with pytest.raises(MissingCapability) as caught:
        available.programs("baking", {"make": "make", "oven": "kitchen"}, {str(tmp_path): "mill"})
    assert str(caught.value) == (
        f"{tmp_path}/oven does not run: no gas (apt-get install --reinstall kitchen)"
    )


def test_several_programs_that_all_run_are_no_error(program):
    program("make")
    available.programs("baking", {"make": "make"})


def test_a_library_tells_the_loader_s_reason(tmp_path):
    (tmp_path / "libx.so.1").write_bytes(b"no library at all" * 100)
    with pytest.raises(MissingCapability, match=r"libx\.so\.1: invalid ELF header \(apt-get install x\)"):
        available.library(f"{tmp_path}/libx.so.1", (), "apt-get install x")
    with pytest.raises(MissingCapability, match=r"libnone\.so\.1: cannot open shared object file: No such"):
        available.library("libnone.so.1", (), "apt-get install x")


def test_a_library_without_a_function_is_of_another_version():
    assert available.library("libc.so.6", ["malloc"], "").malloc
    with pytest.raises(
        MissingCapability, match=r"^libc\.so\.6 has no no_such, it is of another version \(get x\)"
    ):
        available.library("libc.so.6", ["malloc", "no_such"], "get x")


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path):
    available.writable(tmp_path, 1 << 20, "things")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_none_cannot_be_written(tmp_path):
    with pytest.raises(
        MissingCapability, match=f"things go to {tmp_path}/none: No such file or directory; set"
    ):
        available.writable(tmp_path / "none", 1, "things")


def test_a_scratch_folder_goes_with_its_block(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with available.scratch("testbed-x-") as folder:
        assert folder.parent == tmp_path
        assert folder.name.startswith("testbed-x-")
        (folder / "file").write_text("")
    assert list(tmp_path.iterdir()) == []


def test_a_congestion_control():
    # A user may take those that the machine allows to every process.
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    available.congestion_control(allowed[0])
    with pytest.raises(
        MissingCapability, match="control nosuch: the kernel says 'No such file or directory'"
    ):
        available.congestion_control("nosuch")
