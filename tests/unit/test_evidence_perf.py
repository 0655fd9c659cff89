"""What perf printed, as stacks and profiles."""

import pytest

from testbed.analysis.evidence_sums import differing
from testbed.evidence.collect import CollectSpec, parse_condition
from testbed.evidence.packet_stacks import collect
from testbed.evidence.perf import functions, samples
from testbed.evidence.profile import profile
from testbed.records.round import Profile

STACKS = """net:netif_receive_skb: dev=veth0 skbaddr=0xffff888203e814e0 len=512080
\tffffffff81e65193 __netif_receive_skb_core.constprop.0+0x333
\tffffffff81e664c9 __netif_receive_skb_one_core

net:netif_receive_skb: dev=veth0 skbaddr=0xffff888203e816e0 len=511304
\tffffffff81e65193 __netif_receive_skb_core.constprop.0
\tffffffff81e664c9 __netif_receive_skb_one_core

net:net_dev_start_xmit: dev=veth0 queue_mapping=0 skbaddr=0xffff8881 ip_summed=3 len=64346 data_len=64260
\tffffffff81e632fb dev_hard_start_xmit

net:net_dev_start_xmit: dev=eth0 queue_mapping=0 skbaddr=0xffff8881 ip_summed=3 len=70000 data_len=64260
\tffffffff81e632fb dev_hard_start_xmit
"""


def test_same_stack_is_one_with_its_samples_and_largest_packet():
    received, sent = collect(samples(STACKS), ["veth0"])
    assert (received.direction, received.samples, received.largest) == ("rx", 2, 512094)
    assert received.frames == ["__netif_receive_skb_core.constprop.0", "__netif_receive_skb_one_core"]
    assert (sent.direction, sent.samples, sent.largest) == ("tx", 1, 64346)


def test_condition_is_an_operator_and_bytes():
    assert parse_condition("size > 65536") == (">", 65536)
    assert parse_condition("size==862") == ("==", 862)


@pytest.mark.parametrize("text", ["size > big", "len > 5", "size > 5; rm", ""])
def test_other_conditions_are_refused(text):
    with pytest.raises(ValueError, match="expected a condition such as 'size > 65536'"):
        CollectSpec(stacks=text)


def test_profile_is_of_the_busy_time():
    text = (
        " ffffffff81 _copy_from_iter+0x10\n" * 3
        + " ffffffff82 pv_native_safe_halt\n" * 6
        + " 7f0000 [unknown]\n"
    )
    found = profile(functions(text))
    assert found.samples == 4
    assert found.functions == {"_copy_from_iter": 75.0, "[unknown]": 25.0}


def test_profile_of_an_idle_machine_is_empty():
    assert profile([]).functions == {}


def test_functions_that_differ_most_come_first_and_absent_counts_zero():
    a = Profile(samples=9, functions={"copy": 45.0, "tcp_ack": 5.0, "skb_put": 1.0})
    b = Profile(samples=9, functions={"copy": 20.0, "tcp_ack": 6.0, "skb_pull": 3.0})
    assert [tuple(one) for one in differing(a, b, most=2)] == [("copy", 45.0, 20.0), ("skb_pull", 0.0, 3.0)]
