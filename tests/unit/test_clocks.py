"""The wall clock against the one that nobody can set."""

import pytest

from testbed import clocks
from testbed.clocks import Moment
from testbed.running.agreement import steps

START = Moment(monotonic=1000.0, wall=1_700_000_000.0)


def later(seconds: float, set_by: float = 0.0) -> Moment:
    return Moment(START.monotonic + seconds, START.wall + seconds + set_by)


@pytest.mark.parametrize("set_by", [-3600.0, 3600.0, 0.02, -0.02])
def test_a_step_is_what_the_wall_clock_went_further(set_by):
    assert later(10, set_by).step_since(START) == pytest.approx(set_by, abs=1e-6)


def test_reading_both_clocks_is_no_step():
    assert later(10, 0.001).step_since(START) == 0.0
    assert clocks.read().step_since(clocks.read()) == 0.0


def test_steps_of_a_round_say_when_and_by_how_much():
    found = steps([START, later(1), later(5, -3600), later(6, -3600)])
    assert [(step.at_s, step.by_s) for step in found] == [(5.0, -3600.0)]


def test_steps_that_undo_each_other_are_two():
    assert [step.by_s for step in steps([START, later(1, 7), later(5)])] == [7.0, -7.0]


def test_words():
    assert clocks.in_words(-3600) == "set back by 3600.000 s"
    assert clocks.in_words(0.25) == "set forward by 0.250 s"
