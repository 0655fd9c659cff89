"""A kernel warning in a round: seen, the round's own, and not forgiven. Long: `make test-vm`."""

from __future__ import annotations

import json
import sys

import pytest
from stock_kernel import stock

from testbed.guests.vm import Vm

pytestmark = [pytest.mark.slow, pytest.mark.requires("qemu")]

# pktgen makes a file for each device that it is given, and `pgctrl` is there already:
# proc_register() in fs/proc/generic.c warns.
PROVOKE = """
import json, subprocess, sys, time
from pathlib import Path
import psutil

results, argv = Path(sys.argv[1]), sys.argv[2:]
device = "ip link add pgctrl type dummy && ip link set pgctrl up"
subprocess.run(f"modprobe pktgen && {device}", shell=True, check=True)
run = subprocess.Popen(argv)

def finished():
    return sum(len(path.read_text().splitlines()) for path in results.glob("*/rounds.jsonl"))

def flows():
    below = psutil.Process(run.pid).children(recursive=True)
    return sum("iperf3_worker" in " ".join(process.cmdline()) for process in below) == 2

while run.poll() is None:
    try:
        if finished() == 1 and flows():
            subprocess.run("echo add_device pgctrl >/proc/net/pktgen/kpktgend_0", shell=True, check=False)
            break
    except psutil.NoSuchProcess:
        pass
    time.sleep(0.1)
sys.exit(run.wait())
"""
WARNING = "proc_dir_entry 'pktgen/pgctrl' already registered"


def test_a_warning_is_attributed_to_its_round_and_fails_the_run(tmp_path):
    with Vm(stock("7.3"), tmp_path / "vm") as vm:
        results = vm.folder / "runs"
        argv = [
            sys.executable,
            "-m",
            "testbed",
            "run",
            "nagle",
            "--state",
            "big-tcp",
            "--set",
            "protocol.warmup=0",
        ]
        argv += ["--rounds", "3", "--duration", "2", "--omit", "0", "--results", str(results)]
        result = vm.run([sys.executable, "-c", PROVOKE, str(results), *argv], timeout=120)
        (run,) = results.iterdir()
    told = result.stderr.read_text()
    rounds = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    (warned,) = [each for each in rounds if each["kernel_faults"]]
    assert warned["round"] == 1
    assert not warned["valid"]
    assert "kernel: " in warned["reason"]
    assert any(WARNING in line for line in warned["kernel_log"])
    assert "W" in warned["taint"] and "W" not in rounds[0]["taint"]
    again = rounds[2]
    assert (again["block"], again["kernel_faults"]) == (warned["block"], [])
    assert sum(each["valid"] for each in rounds) == 3, told
    assert result.status == 1, told
    assert "failed: round 1, big-tcp: kernel: " in told
