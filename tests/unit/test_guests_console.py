"""The rules for the kernel's log, against recorded logs and the forms that the kernel's source prints."""

from pathlib import Path

import pytest

from testbed.evidence.kernel_log_rules import crash, findings, judge, rules
from testbed.guests import console

LOGS = Path(__file__).parent / "kernel_logs"

# Rule, and a line as the kernel's source prints it.
LINES = [
    ("panic", "[   26.625051] Kernel panic - not syncing: sysrq triggered crash"),
    ("panic", "uptime, vi, xargs[   10.602907] Kernel panic - not syncing: Attempted to kill init!"),
    (
        "null pointer",
        "[    5.123456][  T123] BUG: kernel NULL pointer dereference, address: 0000000000000010",
    ),
    ("page fault", "BUG: unable to handle page fault for address: ffffc90000a34000"),
    ("oops", "[    5.112233] Oops: 0002 [#1] SMP NOPTI"),
    (
        "oops",
        "Oops: general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1]",
    ),
    (
        "protection fault",
        "general protection fault, probably for non-canonical address 0x2: 0000 [#1] PREEMPT SMP",
    ),
    ("kernel BUG", "[    9.223344] kernel BUG at net/core/skbuff.c:109!"),
    ("soft lockup", "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [iperf3:812]"),
    ("sanitizer", "BUG: KASAN: slab-use-after-free in tcp_write_xmit+0x1a/0x90"),
    ("sanitizer", "UBSAN: array-index-out-of-bounds in net/core/dev.c:12:3"),
    ("atomic context", "BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580"),
    ("BUG", "BUG: Bad rss-counter state mm:00000000 type:MM_ANONPAGES val:1"),
    (
        "warning",
        "[   30.445566] WARNING: CPU: 0 PID: 612 at net/ipv4/tcp_output.c:2101 tcp_tso_should_defer+0x1/0x2",
    ),
    ("warning", "WARNING: net/core/dev.c:3412 at skb_warn_bad_offload+0xa1/0xb0, CPU#1: iperf3/612"),
    ("RCU stall", "rcu: INFO: rcu_preempt self-detected stall on CPU"),
    ("RCU stall", "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"),
    ("RCU stall", "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-...D }"),
    ("hung task", "INFO: task kworker/1:2:77 blocked for more than 120 seconds."),
    ("lockdep", "WARNING: possible circular locking dependency detected"),
    ("leaked device", "unregister_netdevice: waiting for veth0 to become free. Usage count = 2"),
    (
        "transmit timeout",
        "virtio_net virtio3 eth0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out 5210 ms",
    ),
    ("bad checksum", "veth0: hw csum failure"),
    ("corrupt list", "list_add corruption. next->prev should be prev (ffff), but was 0000."),
    ("out of memory", "Out of memory: Killed process 4212 (iperf3) total-vm:1kB"),
    ("SYN flood", "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:5201. Sending cookies."),
    ("crashed program", "iperf3[812]: segfault at 0 ip 00007f sp 00007f error 4 in libiperf.so.0"),
]


@pytest.mark.parametrize(("rule", "line"), LINES, ids=[f"{rule}-{i}" for i, (rule, _) in enumerate(LINES)])
def test_each_form_of_a_fault_is_known(rule, line):
    found = judge(line)
    assert found is not None
    # A lockdep report begins with WARNING: since 4.x; either rule makes the round invalid.
    assert found.rule.name in ({"warning", "lockdep"} if rule == "lockdep" else {rule})


def test_every_rule_of_the_data_has_a_form_or_is_a_notice():
    tested = {rule for rule, _ in LINES}
    untested = {rule.name for rule in rules()} - tested
    assert untested <= {
        "stack overflow",
        "hard lockup",
        "bad offload",
        "TCP memory",
        "packets with no buffer",
        "looped packet",
        "link over-sized",
    }


@pytest.mark.parametrize("log", ["boot-7.2-cloud.log", "boot-7.3-cloud.log", "boot-7.3-generic.log"])
def test_a_clean_boot_holds_nothing_that_matters(log):
    assert findings((LOGS / log).read_text().splitlines()) == []


def test_a_recorded_panic_is_a_crash_told_by_its_first_line():
    text = (LOGS / "panic-sysrq.log").read_text()
    assert console.fatal(text) == "Kernel panic - not syncing: sysrq triggered crash"
    assert console.notable(text) == ["Kernel panic - not syncing: sysrq triggered crash"]


def test_a_recorded_death_of_init_is_why_it_did_not_boot():
    text = (LOGS / "panic-init.log").read_text()
    why = console.why_not_booted(text, "")
    assert why == "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000"


def test_a_recorded_shortage_of_memory_is_invalid_and_no_crash():
    lines = (LOGS / "out-of-memory.log").read_text().splitlines()
    assert {found.rule.name for found in findings(lines)} == {"out of memory"}
    assert crash(lines) is None


def test_what_init_says_comes_before_the_panic_that_follows():
    text = "testbed: init: the kernel cannot mount 'root' over 9p\nKernel panic - not syncing: x\n"
    assert console.why_not_booted(text, "") == "the kernel cannot mount 'root' over 9p"


def test_without_a_word_of_the_kernel_qemu_tells():
    assert console.why_not_booted("", "qemu-system-x86_64: -accel kvm: failed\nmore\n") == (
        "qemu-system-x86_64: -accel kvm: failed"
    )


def test_failed_assertion_of_qemu_is_told_from_what_the_guest_did():
    assert console.emulator_failed(
        "qemu-system-x86_64: iotlb_to_section: Assertion `section_index < d->map.sections_nb' failed."
    )
    assert not console.emulator_failed("qemu-system-x86_64: terminating on signal 15")
