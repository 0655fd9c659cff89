"""What is found by trying, as far as it needs no root."""

import os
import subprocess
import sys

import pytest

from testbed import probing
from testbed.devices.links import KINDS
from testbed.probing.devices import LINK_FINDERS, largest


@pytest.mark.parametrize("limit", [68, 69, 1500, 65535, 524280, 2**31 - 1])
def test_bisection_finds_the_largest_value_taken(limit):
    assert largest(lambda value: value <= limit, 68, 2**31 - 1) == limit


def test_an_attribute_finds_its_whole_name_and_nothing_else():
    assert set(probing.find(["kernel.anything"]).values) == {"kernel"}
    assert probing.find(["kernel"]).values["kernel"] == os.uname().release


def test_a_name_that_nobody_can_find_is_missing_and_said_to_be_unknown():
    found = probing.find(["warp_drive"])
    assert not found.has("warp_drive")
    assert found.unmet({"warp_drive": True}) == ["warp_drive is missing: unknown capability"]


def test_a_program_that_is_not_installed_names_its_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probing.find(["bpftrace"]).why == {"bpftrace": "not installed (Debian: bpftrace)"}


def test_a_program_gives_the_first_version_that_it_prints(monkeypatch, tmp_path):
    program = tmp_path / "tcpdump"
    program.write_text("#!/bin/sh\necho tcpdump version 4.99.3 >&2\necho libpcap version 1.10.3 >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probing.find(["tcpdump"]).values == {"tcpdump": "4.99.3"}


def test_a_program_that_fails_is_missing(monkeypatch, tmp_path):
    program = tmp_path / "perf"
    program.write_text("#!/bin/sh\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probing.find(["perf"])
    assert not found.has("perf")
    assert "exit status 2" in found.why["perf"]


def test_every_link_kind_that_can_be_made_is_probed():
    assert set(KINDS) - set(LINK_FINDERS) == {"physical"}


def test_probing_imports_nothing_large():
    """In an emulated guest importing pydantic takes 5 s, and pyroute2 8 s."""
    program = (
        "import sys; from testbed import probing; probing.find(['kernel', 'hugepages', 'bpf', 'cubic']); "
        "large = ('pydantic', 'pyroute2', 'testbed.devices.links', 'psutil'); "
        "print([name for name in large if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
