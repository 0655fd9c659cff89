"""CPU figures from two readings of /proc/stat."""

import pytest
from msgspec.structs import astuple, replace

from testbed.evidence.cpu import account, busiest_softirq, irq_time, mean, use
from testbed.records.round import CoreUse, Cpu, ProcessUse

ZERO = dict.fromkeys(
    ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"), 0.0
)


def test_percent_is_of_all_time_the_core_had():
    (core,) = use([ZERO], [ZERO | {"user": 1.0, "system": 2.0, "softirq": 0.5, "idle": 6.5}])
    assert (core.user, core.system, core.softirq, core.idle) == (10.0, 20.0, 5.0, 65.0)


def test_nice_time_is_user_time_and_guest_time_is_not_counted_twice():
    (core,) = use([ZERO], [ZERO | {"user": 2.0, "guest": 2.0, "nice": 1.0, "idle": 1.0}])
    assert core.user == pytest.approx(75.0)
    assert sum(astuple(core)) == pytest.approx(100.0)


def test_core_whose_clock_did_not_move_has_no_use():
    (core,) = use([ZERO], [ZERO])
    assert core.idle == 0.0


def test_counter_that_ran_backwards_counts_as_still():
    (core,) = use([ZERO | {"iowait": 5.0}], [ZERO | {"iowait": 4.9, "idle": 1.0}])
    assert (core.iowait, core.idle) == (0.0, 100.0)


def test_net_cores_are_those_where_softirqs_ran():
    after = [ZERO | {"softirq": 9.0}, ZERO | {"softirq": 0.5}, ZERO | {"softirq": 3.0}]
    assert busiest_softirq([ZERO] * 3, after) == [0, 2]


def test_without_softirq_time_no_core_is_a_net_core():
    assert busiest_softirq([ZERO] * 2, [ZERO] * 2) == []


def test_label_is_the_mean_of_its_cores():
    cores = [CoreUse(user=10, system=50), CoreUse(user=30, system=70), CoreUse(idle=100)]
    app = mean(cores, [0, 1])
    assert (app.user, app.system, app.idle) == (20.0, 60.0, 0.0)
    assert mean(cores, []) is None


def test_config_tells_whether_irq_time_is_accounted():
    assert irq_time(b"CONFIG_TICK_CPU_ACCOUNTING=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n") == "sampled"
    assert irq_time(b"CONFIG_IRQ_TIME_ACCOUNTING=y\n") == "accounted"
    assert irq_time(None) is None


def cores(**ways):
    return Cpu(per_core=[CoreUse(**ways)] * 2, core_s=4.0)


def test_cores_time_that_is_known_to_be_somebodys():
    """2 cores for 2 s: half idle, a quarter softirq; of the process time of 1 s 0.6 s are the workload's."""
    cpu = cores(user=5, system=20, softirq=25, idle=50)
    cpu = replace(cpu, processes={"client": ProcessUse(user_s=0.1, system_s=0.5)})
    counted, impossible = account(cpu, foreign=10.0)  # 0.2 s of another process
    assert impossible is None
    assert counted.accounted == pytest.approx((2 + 1 + 0.6 + 0.2) / 4)


def test_processes_cannot_have_used_more_than_the_cores_had():
    cpu = replace(cores(user=50, system=50), processes={"client": ProcessUse(user_s=4.0, system_s=0.5)})
    assert account(cpu, foreign=0.0)[1] == "cpu: the processes used 4.50 s, the cores had 4.00 s"


def test_processes_may_have_used_more_than_the_tick_saw():
    """An emulated guest: the scheduler counted 2.55 s, the ticks 1.96 s."""
    cpu = replace(cores(user=20, system=29, idle=51), processes={"client": ProcessUse(2.0, 0.55)})
    assert account(cpu, foreign=0.0)[1] is None


def test_round_without_cpu_evidence_is_not_accounted():
    assert account(Cpu(processes={"client": ProcessUse(user_s=1, system_s=1)}), foreign=0.0)[1] is None
