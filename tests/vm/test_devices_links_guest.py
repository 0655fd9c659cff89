"""Link kinds that a development machine's kernel may lack, on a stock kernel that has them all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from testbed.outcome import Outcome

pytestmark = [pytest.mark.slow, pytest.mark.requires("qemu")]

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "system" / "test_devices_links.py"
KINDS = ("geneve", "netkit", "ipvlan", "vlan", "dummy")


def test_the_kinds_that_are_rare_are_made_and_carry(guest):
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(TESTS),
        "-k",
        " or ".join(KINDS),
    ]
    result = guest.run(argv, timeout=120, cwd=ROOT)
    output = result.stdout.read_text()
    assert result.outcome is Outcome.PASS, output
    for kind in KINDS:
        assert f"this kernel has {kind}" in output, f"{kind} was not tried"
