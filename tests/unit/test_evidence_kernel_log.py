"""The kernel's log: records, rules, taint, on lines that kernels printed."""

import pytest

from testbed.evidence.kernel_log import faults, kept, parse, taint_letters


def test_record_gives_level_and_text_without_its_dictionary():
    record = "4,1234,56789,-;veth0: tx timed out\n SUBSYSTEM=net\n DEVICE=n2\n"
    assert parse(record) == (4, "veth0: tx timed out")


def test_facility_is_not_part_of_the_level():
    assert parse("30,339,5140900,-;systemd[1]: Started; fine") == (6, "systemd[1]: Started; fine")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("warning", "WARNING: CPU: 1 PID: 812 at net/core/skbuff.c:5170 skb_segment+0x5c/0xf00"),
        ("kernel BUG", "kernel BUG at net/core/skbuff.c:2187!"),
        ("null pointer", "BUG: kernel NULL pointer dereference, address: 0000000000000010"),
        ("oops", "Oops: 0000 [#1] PREEMPT SMP NOPTI"),
        ("panic", "Kernel panic - not syncing: Fatal exception in interrupt"),
        ("soft lockup", "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [iperf3:412]"),
        ("RCU stall", "rcu: INFO: rcu_preempt self-detected stall on CPU"),
        ("hung task", "INFO: task kworker/u4:1:35 blocked for more than 120 seconds."),
        ("leaked device", "unregister_netdevice: waiting for veth0 to become free. Usage count = 2"),
        ("transmit timeout", "NETDEV WATCHDOG: eth0 (virtio_net): transmit queue 0 timed out 5000 ms"),
    ],
)
def test_fault_is_named_by_its_rule(rule, text):
    assert faults([text]) == [f"{rule}: {text}"]


@pytest.mark.parametrize(
    "text",
    [
        "veth0: entered promiscuous mode",
        "IPv6: ADDRCONF(NETDEV_CHANGE): veth0: link becomes ready",
        "br0: port 2(tap0) entered disabled state",
        "EXT4-fs (vda): mounted filesystem with warning: none",
        "debug: no BUGs here",
    ],
)
def test_ordinary_line_is_no_fault(text):
    assert faults([text]) == []


def test_taint_bits_have_the_letters_of_an_oops():
    assert taint_letters(0) == ""
    assert taint_letters(1 << 9 | 1 << 7) == "DW"
    assert taint_letters(1 << 18) == "N"
    assert taint_letters(1 << 25) == "(25)"


def test_a_warning_is_kept_whole_and_what_stands_around_it_is_not():
    warning = [
        (4, "------------[ cut here ]------------"),
        (4, "proc_dir_entry 'pktgen/pgctrl' already registered"),
        (4, "WARNING: CPU: 0 PID: 214 at fs/proc/generic.c:405 proc_register+0x16a/0x210"),
        (4, "Call Trace:"),
        (4, " <TASK>"),
        (4, "---[ end trace 0000000000000000 ]---"),
    ]
    around = [(6, "random: crng init done"), (5, "audit: type=1400"), (3, "pktgen: no entry")]
    assert kept([*around, *warning, *around]) == [text for _, text in warning]
