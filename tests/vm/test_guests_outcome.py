"""Each way in which a boot or a command can end, on kernels of several ages. Long: `make test-vm`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from stock_kernel import stock

from testbed.guests import ways
from testbed.guests.launch import Size
from testbed.guests.pinning import vcpu_threads
from testbed.guests.result import BootFailed
from testbed.guests.vm import Vm
from testbed.guests.ways import Way
from testbed.outcome import Outcome

pytestmark = pytest.mark.slow
BOOTS = 20


@pytest.mark.parametrize("version", ["6.1", "6.12", "7.2", "7.3"])
def test_kernels_of_every_layout_boot_and_load_modules(version, tmp_path):
    with Vm(stock(version), tmp_path / "vm") as vm:
        links = "ip link add veth0 type veth peer veth1 && ip link add vxlan0 type vxlan id 1 dstport 4789"
        script = f"{links} && uname -r"
        result = vm.run(["sh", "-c", script], timeout=30)
        assert result.stderr.read_text() == ""
        assert result.stdout.read_text().strip() == vm.kernel.release


def test_a_kernel_with_9p_as_modules_boots_without_a_daemon(tmp_path):
    with Vm(stock("7.3", "generic"), tmp_path / "vm", try_ways=[Way("tcg", "9p")]) as vm:
        result = vm.run(["sh", "-c", "grep ' / 9p ro,' /proc/mounts && touch $TESTBED_RESULTS/x"], timeout=30)
        assert result.outcome is Outcome.PASS
        assert (vm.folder / "x").exists()


def test_a_panic_is_a_crash_and_its_log_is_kept(tmp_path):
    with Vm(stock("6.12"), tmp_path / "vm") as vm:
        result = vm.run(["sh", "-c", "echo c >/proc/sysrq-trigger"], timeout=60)
        assert (result.outcome, result.status) == (Outcome.CRASH, None)
        assert result.reason == "Kernel panic - not syncing: sysrq triggered crash"
        assert not vm.alive
    assert "sysrq_handle_crash" in (vm.folder / "console.log").read_text()


def test_a_guest_that_no_longer_answers_ends_by_itself(tmp_path):
    with Vm(stock("6.12"), tmp_path / "vm") as vm:
        # Process 1 stopped: nobody listens.
        result = vm.run(["sh", "-c", "kill -STOP 1; sleep 1000"], timeout=1)
        assert result.outcome in (Outcome.TIMEOUT, Outcome.CRASH)


def test_a_results_folder_that_fills_up_ends_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("testbed.guests.command.FOLDER_LIMIT", 32 << 20)
    with Vm(stock("6.12"), tmp_path / "vm") as vm:
        result = vm.run(["sh", "-c", "cat /dev/zero >$TESTBED_RESULTS/zero"], timeout=60)
        assert result.outcome is Outcome.FAIL
        assert result.reason is not None and "results folder is full" in result.reason


def test_a_kernel_that_dies_while_booting_is_boot_failed_with_its_last_words(tmp_path):
    size = Size(append=("rdinit=/bin/busybox",))
    with (
        pytest.raises(BootFailed, match="Attempted to kill init") as error,
        Vm(stock("6.12"), tmp_path / "vm", size=size),
    ):
        pass
    assert error.value.outcome is Outcome.BOOT_FAILED
    assert list((tmp_path / "vm").glob("console.log.attempt-*"))


def test_killed_with_sigkill_nothing_of_a_guest_remains(tmp_path):
    kernel = stock("6.12")
    folder = tmp_path / "vm"
    argv = [sys.executable, "-m", "testbed", "kernel", "boot", kernel.name]
    argv += ["--results", str(folder), "--", "sleep", "1000"]
    program = subprocess.Popen(argv)
    deadline = time.monotonic() + 60 * ways.EMULATED
    while not (folder / "0001/pid").exists():
        assert time.monotonic() < deadline and program.poll() is None
        time.sleep(0.2)
    below = psutil.Process(program.pid).children(recursive=True)
    assert any(process.name().startswith("qemu") for process in below)
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    gone, alive = psutil.wait_procs(below, timeout=10)
    assert alive == [] and len(gone) == len(below)
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert {path.name for path in folder.iterdir()} == {"0001", "console.log", "qemu.log", "vm.json"}


def test_vcpus_run_where_they_are_pinned(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    with Vm(stock("6.12"), tmp_path / "vm", size=Size(cores=2, pins=tuple(cpus))) as vm:
        threads = vcpu_threads(vm.pid)
        assert [os.sched_getaffinity(threads[number]) for number in sorted(threads)] == [
            {cpus[number % len(cpus)]} for number in range(2)
        ]


def test_twenty_boots_in_a_row_and_none_is_lost(tmp_path):
    took = []
    for number in range(BOOTS):
        with Vm(stock("6.12"), tmp_path / str(number)) as vm:
            assert vm.run(["true"], timeout=20).outcome is Outcome.PASS
            took.append(vm.boot_s)
    assert len(took) == BOOTS
