"""CPU figures from two readings of /proc/stat."""

import pytest

from testbed.evidence.cpu import use

ZERO = dict.fromkeys(
    ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"), 0.0
)


def test_percent_is_of_all_time_the_core_had():
    (core,) = use([ZERO], [ZERO | {"user": 1.0, "system": 2.0, "softirq": 0.5, "idle": 6.5}])
    assert (core.user, core.system, core.softirq, core.idle) == (10.0, 20.0, 5.0, 65.0)


def test_nice_time_is_user_time_and_guest_time_is_not_counted_twice():
    (core,) = use([ZERO], [ZERO | {"user": 2.0, "guest": 2.0, "nice": 1.0, "idle": 1.0}])
    assert core.user == pytest.approx(75.0)
    assert sum(core.model_dump().values()) == pytest.approx(100.0)


def test_core_whose_clock_did_not_move_has_no_use():
    (core,) = use([ZERO], [ZERO])
    assert core.idle == 0.0


def test_counter_that_ran_backwards_counts_as_still():
    (core,) = use([ZERO | {"iowait": 5.0}], [ZERO | {"iowait": 4.9, "idle": 1.0}])
    assert (core.iowait, core.idle) == (0.0, 100.0)
