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
    assert probing.find(["bpftrace"]).why == {"bpftrace": "not installed, or not in PATH (Debian: bpftrace)"}


def test_every_link_kind_that_can_be_made_is_probed():
    assert set(KINDS) - set(LINK_FINDERS) == {"physical"}


def test_probing_imports_nothing_large():
    """In an emulated guest importing pydantic takes 5 s, and all of pyroute2 7 s."""
    program = (
        "import sys; from testbed import probing; probing.find(['kernel', 'hugepages', 'bpf', 'cubic']); "
        "large = ('pydantic', 'pyroute2.iproute', 'asyncio', 'testbed.devices.links.kind', 'psutil'); "
        "print([name for name in large if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
