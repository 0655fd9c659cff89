"""The zerocopy workload in real namespaces, and the machine's huge pages that it borrows."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from workload_lab import run, state_of

from testbed.errors import MissingCapability
from testbed.lab.lab import open_lab
from testbed.running.measure import try_state
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.tool import Hooks

NR_HUGEPAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")

pytestmark = pytest.mark.skipif(not NR_HUGEPAGES.exists(), reason="this kernel has no huge pages of 2 MB")


def held():
    return int(NR_HUGEPAGES.read_text())


@pytest.mark.parametrize("pages", ["ordinary", "huge"])
def test_every_send_has_a_completion_and_huge_pages_are_given_back(tmp_path, pages):
    before, during = held(), []
    outcome = run(tmp_path, tool="zerocopy", pages=pages, at_start=lambda lab: during.append(held()))
    assert outcome.reason is None
    counts = outcome.workload.zerocopy
    assert counts.sends == counts.completions > 0
    assert counts.copied == counts.completions, "over veth to a local receiver the kernel copies"
    assert outcome.workload.bits_per_second > 0
    assert outcome.workload.congestion == "cubic"
    assert outcome.processes["client"].system_s > 0
    assert held() == before
    assert during[0] >= (1 if pages == "huge" else before)


def test_a_send_that_copies_has_no_completions(tmp_path):
    outcome = run(tmp_path, tool="zerocopy", zerocopy=False, family=4)
    assert outcome.reason is None
    assert outcome.workload.zerocopy.completions == 0


def test_more_huge_pages_than_the_machine_has_refuse_the_state_before_a_run_and_the_round_in_one(tmp_path):
    before = held()
    words = r"free huge pages of 2 MB, 10000000 are needed"
    too_many = {"tool": "zerocopy", "from": "client", "to": "server", "pages": "huge"}
    options = parse_options(too_many).model_copy(update={"length": 10_000_000 << 21})
    with pytest.raises(MissingCapability, match=words) as error:
        try_state(state_of(options))
    assert "\n" not in str(error.value)
    with open_lab("veth-pair") as lab:
        outcome = TOOLS["zerocopy"].run(
            lab, options, cpus={}, hooks=Hooks(measuring=lambda: None), raw=tmp_path, raw_name="x"
        )
    assert outcome.reason == str(error.value)
    assert outcome.workload.client_argv[:2] == ["zerocopy_worker", "send"]
    assert held() == before


def test_flows_side_by_side_have_huge_pages_each(tmp_path):
    before, during = held(), []
    outcome = run(
        tmp_path,
        tool="flows",
        flows=[{"tool": "zerocopy", "pages": "huge", "count": 3}],
        at_start=lambda lab: during.append(held()),
    )
    assert outcome.reason is None
    assert during == [before + 3]
    assert held() == before


def test_huge_pages_are_given_back_when_their_borrower_is_killed():
    before = held()
    code = "from testbed.workloads.zerocopy import reserved\nwith reserved(3): print(flush=True); input()"
    borrower = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with borrower:
        borrower.stdout.readline()
        assert held() >= 3
        os.kill(borrower.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while held() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() == before
