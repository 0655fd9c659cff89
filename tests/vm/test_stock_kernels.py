"""What the running kernel may lack, inside a stock one. Long: `make test-vm`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stock_kernel import stock

from testbed.kernels.outcome import Outcome
from testbed.kernels.vm import Vm

pytestmark = pytest.mark.slow
SYSTEM = Path(__file__).resolve().parent.parent / "system"


def test_link_kinds_and_qdiscs_pass_their_system_tests_inside(tmp_path):
    """geneve, netkit, ipvlan, dummy, netem: a kernel that has them runs the tests of this one."""
    tests = sorted(str(path) for path in SYSTEM.glob("test_links*.py"))
    with Vm(stock("7.3"), tmp_path / "vm") as vm:
        argv = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
        argv += [f"--basetemp={vm.folder}/tmp", *tests]
        result = vm.run(argv, timeout=600, cwd=SYSTEM.parent.parent)
        told = result.stdout.read_text()
        assert result.outcome is Outcome.PASS, told[-3000:] + (result.reason or "")
        for kind in ("geneve", "netkit", "ipvlan", "dummy", "netem"):
            assert f"SKIPPED [1] {kind}" not in told
