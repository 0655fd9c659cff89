"""The kernel's log: records, rules, taint, on lines that kernels printed."""

import pytest

from testbed.evidence.kernel_log import faults, parse, taint_letters


def test_record_gives_level_and_text_without_its_dictionary():
    record = "4,1234,56789,-;veth0: tx timed out\n SUBSYSTEM=net\n DEVICE=n2\n"
    assert parse(record) == (4, "veth0: tx timed out")


def test_facility_is_not_part_of_the_level():
    assert parse("30,339,5140900,-;systemd[1]: Started; fine") == (6, "systemd[1]: Started; fine")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("warning", "WARNING: CPU: 1 PID: 812 at net/core/skbuff.c:5170 skb_segment+0x5c/0xf00"),
        ("bug", "kernel BUG at net/core/skbuff.c:2187!"),
        ("bug", "BUG: kernel NULL pointer dereference, address: 0000000000000010"),
        ("oops", "Oops: 0000 [#1] PREEMPT SMP NOPTI"),
        ("oops", "general protection fault, probably for non-canonical address 0xdead000000000122"),
        ("panic", "Kernel panic - not syncing: Fatal exception in interrupt"),
        ("lockup", "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [iperf3:412]"),
        ("stall", "rcu: INFO: rcu_preempt self-detected stall on CPU"),
        ("stall", "INFO: task kworker/u4:1:35 blocked for more than 120 seconds."),
        ("memory", "refcount_t: underflow; use-after-free."),
        ("locking", "WARNING: possible circular locking dependency detected"),
        ("checksum", "veth0: hw csum failure"),
        ("leak", "unregister_netdevice: waiting for veth0 to become free. Usage count = 2"),
        ("transmit", "NETDEV WATCHDOG: eth0 (virtio_net): transmit queue 0 timed out 5000 ms"),
    ],
)
def test_fault_is_recognised(rule, text):
    (found,) = faults([text])
    assert found.endswith(text)
    assert found.split(":")[0] in (rule, "warning", "bug")


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
