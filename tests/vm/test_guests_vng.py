"""virtme-ng as the backend: the same outcomes as on our own."""

from __future__ import annotations

import pytest
from stock_kernel import stock

from testbed.guests import vng
from testbed.guests.launch import Size
from testbed.outcome import Outcome

pytestmark = [pytest.mark.slow, pytest.mark.requires("vng")]


def run(folder, script):
    argv = ["sh", "-c", script]
    kernel = stock("7.3", "generic")
    return vng.run(kernel, folder, Size(), argv, timeout=30, watch=lambda place: None).result


def test_streams_status_and_results_of_a_command_in_virtme_ng(tmp_path):
    result = run(tmp_path, "uname -r; echo err >&2; echo x >$TESTBED_RESULTS/x; exit 7")
    assert (result.outcome, result.status, result.reason) == (Outcome.FAIL, 7, None)
    assert result.stdout.read_text().strip() == stock("7.3", "generic").release
    assert result.stderr.read_text() == "err\n"
    assert (tmp_path / "x").read_text() == "x\n"


def test_a_panic_in_virtme_ng_is_a_crash(tmp_path):
    result = run(tmp_path, "echo c >/proc/sysrq-trigger")
    assert (result.outcome, result.status) == (Outcome.CRASH, None)
    assert result.reason == "Kernel panic - not syncing: sysrq triggered crash"
    assert "sysrq_handle_crash" in (tmp_path / "console.log").read_text()
