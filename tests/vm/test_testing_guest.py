"""Tests that are marked for a kernel run in a guest of it, and are reported by the pytest that was asked."""

import subprocess
import sys

import pytest
from stock_kernel import stock

pytestmark = [pytest.mark.slow, pytest.mark.requires("qemu")]

MARKED = """
import platform, pytest

@pytest.mark.kernel({name!r})
def test_runs_there(lab):
    assert platform.release() == {release!r}

@pytest.mark.kernel({name!r})
def test_fails_there(lab):
    assert lab.nodes.keys() == set(), "these are the nodes"

@pytest.mark.kernel({name!r})
@pytest.mark.capabilities(veth_max_mtu=">= 524280")
def test_is_skipped_there(lab):
    pass

@pytest.mark.kernel("no-such-kernel")
def test_has_no_kernel():
    pass

def test_runs_here():
    assert platform.release() != {release!r}
"""


def test_marked_tests_run_in_a_guest(tmp_path):
    kernel = stock("7.3")
    (tmp_path / "test_marked.py").write_text(MARKED.format(name=kernel.name, release=kernel.release))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 2 passed, 2 skipped" in done.stdout, done.stdout + done.stderr
    assert "these are the nodes" in done.stdout
    assert "veth.max_mtu is 65535, needed >= 524280" in done.stdout
