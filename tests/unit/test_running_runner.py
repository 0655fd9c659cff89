"""How a run ends: complete with every wanted round valid, and else what kept it from that."""

from pathlib import Path

import pytest
from made_rounds import KERNEL

from testbed.errors import InputError, MissingCapability
from testbed.experiments.resolve import load_experiment, parse_override
from testbed.experiments.schedule import Leg, legs
from testbed.records.run import Kernel
from testbed.records.store import RunWriter, open_run
from testbed.running.runner import Observer, Runner, Stop, new_run, reopen


class Scripted:
    """A site whose rounds are valid or not as `verdicts` says, round after round; then all are valid."""

    def __init__(self, verdicts, stop, *, stop_in=None, name=KERNEL, refuses=()):
        self.name, self.raw = name, Path()
        self._verdicts, self._stop, self._stop_in, self._refuses = list(verdicts), stop, stop_in, refuses

    def kernel(self):
        return Kernel(release=self.name, version="#1")

    def capabilities(self, names):
        raise AssertionError("these states require nothing")

    def try_state(self, state):
        if state.name in self._refuses:
            raise MissingCapability("refused")

    def measure(self, task):
        if task.number == self._stop_in:  # a signal arrives while it is measured
            self._stop.requested = True
        valid = self._verdicts.pop(0) if self._verdicts else True
        return task.record(valid=valid, reason=None if valid else "told to", started="t", ended="t")

    def close(self):
        pass


@pytest.fixture(scope="module")
def nagle():
    overrides = [
        parse_override(f"protocol.{rule}") for rule in ("rounds=2", "cap=2", "warmup=0", "retries=2")
    ]
    return load_experiment("nagle", overrides=overrides, states=["big-tcp", "big-tcp-nodelay"])


@pytest.fixture(scope="module")
def fresh(nagle, tmp_path_factory):
    """The record of a run that has just begun."""
    results = tmp_path_factory.mktemp("results")
    opened = new_run(nagle, {KERNEL: Kernel(release=KERNEL, version="#1")}, 1, results, [])
    opened.close()
    return opened.run


@pytest.fixture
def writer(fresh, tmp_path):
    opened = RunWriter.create(tmp_path, fresh)
    yield opened
    opened.close()


def ended(nagle, writer, verdicts=(), stop_in=None, earlier=()):
    """The status of a run with these verdicts, stopped in round `stop_in`; the runner."""
    stop = Stop()
    site = Scripted(verdicts, stop, stop_in=stop_in)
    runner = Runner(nagle, [Leg()], lambda leg: site, writer, Observer(), stop)
    status = runner.run(earlier)
    assert writer.run.status == status
    return status, runner


def valid_slots(writer):
    return [(r.block, r.position) for r in open_run(writer.folder).rounds() if r.valid]


def test_a_run_with_every_wanted_round_is_complete(nagle, writer):
    assert ended(nagle, writer, [False, True])[0] == "complete"
    assert valid_slots(writer) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("last", [[True, True, True, False], [True, True, True, False, False]])
def test_a_run_stopped_while_its_last_round_is_repeated_is_interrupted_and_goes_on(nagle, writer, last):
    assert ended(nagle, writer, last, stop_in=len(last) - 1)[0] == "interrupted"
    assert len(valid_slots(writer)) == 3
    writer.close()
    stored = open_run(writer.folder)
    kernels = {KERNEL: Kernel(release=KERNEL, version="#1")}
    again = reopen(stored, nagle, kernels)
    assert ended(nagle, again, earlier=stored.rounds())[0] == "complete"
    assert valid_slots(again) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    again.close()
    with pytest.raises(InputError, match="the run is complete"):
        reopen(open_run(writer.folder), nagle, kernels)


def test_a_run_stopped_in_its_last_wanted_round_is_complete_when_that_is_valid(nagle, writer):
    assert ended(nagle, writer, stop_in=3)[0] == "complete"


def test_a_run_stopped_before_is_interrupted(nagle, writer):
    assert ended(nagle, writer, stop_in=1)[0] == "interrupted"
    assert valid_slots(writer) == [(0, 0), (0, 1)]


def test_a_run_with_a_round_that_stayed_invalid_has_failed_and_can_be_resumed(nagle, writer):
    status, runner = ended(nagle, writer, [True, False, False, False])
    assert status == "failed"
    (line,) = runner.failed
    assert line.endswith("block 1: no valid round: told to")
    writer.close()
    stored = open_run(writer.folder)
    again = reopen(stored, nagle, writer.run.kernels)
    assert ended(nagle, again, earlier=stored.rounds())[0] == "complete"
    assert sorted(valid_slots(again)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    again.close()


def of_two_kernels(nagle, writer, refuses, stop_in=None):
    """A run on two kernels that refuse these states; the kernels that were opened."""
    stop, opened = Stop(), []

    def open_site(leg):
        opened.append(leg.kernel)
        return Scripted([], stop, stop_in=stop_in, name=leg.kernel, refuses=refuses[leg.kernel])

    runner = Runner(nagle, legs(["old", "new"], 2, 1), open_site, writer, Observer(), stop)
    return runner.run, opened


def test_a_run_that_no_kernel_can_run_any_state_of_says_what_is_lacking(nagle, writer):
    every = ("big-tcp", "big-tcp-nodelay")
    run, opened = of_two_kernels(nagle, writer, {"old": every, "new": every})
    with pytest.raises(MissingCapability, match="no state of nagle can run here: big-tcp@old: refused"):
        run()
    assert opened == ["old", "new"]
    assert writer.run.status == "failed"


def test_a_kernel_that_can_run_a_state_is_enough(nagle, writer):
    run, _ = of_two_kernels(nagle, writer, {"old": ("big-tcp", "big-tcp-nodelay"), "new": ()})
    assert run() == "complete"
    assert writer.run.skipped.keys() == {"big-tcp@old", "big-tcp-nodelay@old"}


def test_no_kernel_is_booted_after_a_stop(nagle, writer):
    run, opened = of_two_kernels(nagle, writer, {"old": (), "new": ()}, stop_in=3)
    assert run() == "interrupted"
    assert opened == ["old"]
