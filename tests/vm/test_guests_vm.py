"""One stock kernel, booted once: commands, streams, devices, and a lab with BPF evidence inside."""

from __future__ import annotations

import json
import sys

import pytest

from testbed.outcome import Outcome

pytestmark = pytest.mark.requires("bpf")

# Stands in for the far end of a run.
REVERSE = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line.strip()[::-1] + b"\\n")
    sys.stdout.flush()
"""


def test_the_streams_and_the_status_of_a_command_stay_apart(guest):
    result = guest.run(["sh", "-c", "echo out; echo err >&2; uname -r; exit 7"], timeout=20)
    assert (result.outcome, result.status) == (Outcome.FAIL, 7)
    assert result.stdout.read_text() == f"out\n{guest.kernel.release}\n"
    assert result.stderr.read_text() == "err\n"
    assert (result.taint_before, result.taint_after) == (0, 0)


def test_only_the_results_folder_can_be_written(guest):
    script = "touch $TESTBED_RESULTS/mine && touch /etc/testbed-was-here"
    result = guest.run(["sh", "-c", script], timeout=20)
    assert result.status != 0
    assert "Read-only file system" in result.stderr.read_text()
    assert (guest.folder / "mine").exists()


def test_a_command_that_hangs_is_ended_and_the_guest_goes_on(guest):
    result = guest.run(["sh", "-c", "sleep 1000 & sleep 1000"], timeout=0.5)
    assert (result.outcome, result.status) == (Outcome.TIMEOUT, None)
    after = guest.run(["sh", "-c", "ps -e -o args= | grep -c '^sleep'"], timeout=20)
    assert after.stdout.read_text() == "0\n"


def test_what_the_kernel_logs_meanwhile_is_judged(guest):
    line = "WARNING: CPU: 0 PID: 1 at net/core/dev.c:1 made_by_a_test"
    result = guest.run(["sh", "-c", f"echo '<4>{line}' >/dev/kmsg"], timeout=20)
    assert result.outcome is Outcome.PASS
    assert result.kernel_log == [line]
    quiet = guest.run(["true"], timeout=20)
    assert quiet.kernel_log == []


def test_lines_go_to_a_program_in_the_guest_and_back(guest):
    channel = guest.channel([sys.executable, "-c", REVERSE])
    channel.send(b"abc")
    assert channel.receive(20 * guest.slowdown) == b"cba"
    channel.send(b"x" * 50_000 + b"y")
    assert channel.receive(20 * guest.slowdown) == b"y" + b"x" * 50_000


def test_a_lab_with_evidence_runs_inside(guest):
    """Every packet that the interfaces counted was seen by BPF, on a kernel that is not this one."""
    results = guest.folder / "runs"
    argv = [sys.executable, "-m", "testbed", "run", "nagle", "--state", "big-tcp"]
    argv += ["--rounds", "1", "--duration", "1", "--omit", "0", "--results", str(results)]
    result = guest.run(argv, timeout=120)
    told = f"{result.reason}\n{result.stdout.read_text()}\n{result.stderr.read_text()}"
    assert results.exists(), told
    (run,) = results.iterdir()
    rounds = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    measured = [each for each in rounds if each["valid"] and not each["warmup"]]
    assert measured, told
    assert json.loads((run / "run.json").read_text())["kernels"][measured[0]["kernel"]]["release"] == (
        guest.kernel.release
    )
    for each in measured:
        assert each["packet_sizes_meta"]["collector"] == "bpf"
        assert each["counters_match"] is True
        received = [
            size for size in each["packet_sizes"] if (size["node"], size["direction"]) == ("server", "rx")
        ]
        assert max(size["size"] for size in received) > 65_549
        assert sum(size["packets"] for size in received) == each["counters"]["server:veth0"]["rx_packets"]
