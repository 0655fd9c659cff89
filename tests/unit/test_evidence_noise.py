"""Processes, pressure and the noise between two readings, on recorded and made inputs."""

import os

import pytest

from testbed.evidence.noise import Reading, busiest, noise, pressure, used_s
from testbed.evidence.processes import Task, family, parse_stat

STAT = (
    "812 (a) b (c) S 800 812 800 34816 812 4194304 1 0 0 0 250 50 30 20 20 0 1 0 5000 1000 200 "
    "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0"
)


def test_stat_line_with_brackets_in_the_name():
    task = parse_stat(STAT)
    assert (task.pid, task.parent, task.name, task.processor) == (812, 800, "a) b (c", 1)
    assert task.used_s == pytest.approx(350 / os.sysconf("SC_CLK_TCK"))


def test_pressure_is_the_total_of_some():
    text = "some avg10=4.16 avg60=2.02 avg300=1.39 total=15526996\nfull avg10=0.00 total=7\n"
    assert pressure(text) == pytest.approx(15.526996)
    assert pressure("") is None


def test_family_is_the_process_and_all_below_it():
    known = {pid: Task(pid, parent, "x", 0, 0) for pid, parent in ((10, 1), (11, 10), (12, 11), (13, 1))}
    assert family(10, known) == {10, 11, 12}


def test_cpu_of_others_is_what_they_used_between_the_readings():
    before = {5: Task(5, 1, "cc", 2.0, 0)}
    after = {5: Task(5, 1, "cc", 3.5, 0), 6: Task(6, 1, "ld", 0.25, 1)}
    assert used_s(before, after) == pytest.approx(1.75)


def test_what_an_ended_process_had_used_before_is_not_counted_again():
    """Its time, the part before the first reading too, moves to who waited for it, here not its parent."""
    before = {
        1: Task(1, 0, "init", 9.0, 0),
        5: Task(5, 1, "make", 1.0, 0),
        6: Task(6, 5, "sh", 0.1, 0),
        7: Task(7, 6, "cc", 4.0, 0),
    }
    after = {1: Task(1, 0, "init", 9.0 + 4.5, 0), 5: Task(5, 1, "make", 1.0 + 0.1, 0)}
    assert used_s(before, after) == pytest.approx(0.5)


def test_process_that_nobody_waited_for_gives_no_negative_time():
    assert used_s({5: Task(5, 1, "cc", 2.0, 0)}, {}) == 0.0


def test_busiest_are_named_once_each():
    before = {pid: Task(pid, 1, name, 0.0, 0) for pid, name in ((5, "cc"), (6, "cc"), (7, "idle"), (8, "ld"))}
    after = {
        pid: Task(pid, 1, before[pid].name, used, 0) for pid, used in ((5, 1.0), (6, 3.0), (7, 0.0), (8, 2.0))
    }
    assert busiest(before, after) == ["cc", "ld"]


def test_percentages_are_of_the_time_between():
    before = Reading(at=100.0, waited_s=5.0, stolen_s=1.0, cpu_s=50.0, others={})
    after = Reading(at=110.0, waited_s=7.0, stolen_s=1.4, cpu_s=70.0, others={9: Task(9, 1, "cc", 5.0, 0)})
    found = noise(before, after)
    assert found.cpu_pressure == pytest.approx(20.0)
    assert found.steal == pytest.approx(2.0)
    assert found.foreign == pytest.approx(50.0)


def test_kernel_without_psi_has_no_pressure():
    before = Reading(0.0, None, 0.0, 0.0, {})
    assert noise(before, Reading(1.0, None, 0.0, 2.0, {})).cpu_pressure is None
