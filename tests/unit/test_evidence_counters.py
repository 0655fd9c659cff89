"""Packet sizes against interface counters: which rule applies, and what is a mismatch."""

from testbed.evidence.counters import compare, difference
from testbed.records.round import Counters, PacketSize, Unseen

PLACE = "client:veth0"
GRO = [PLACE]


def size(direction, octets, packets, gso_size=0, gso_segs=0):
    return PacketSize(
        node="client",
        device="veth0",
        direction=direction,
        size=octets,
        gso_size=gso_size,
        gso_segs=gso_segs,
        packets=packets,
    )


def test_sums_equal_to_the_counters_match_plainly():
    sizes = [size("tx", 512094, 2), size("tx", 86, 1), size("rx", 86, 3)]
    counted = Counters(rx_packets=3, rx_bytes=258, tx_packets=3, tx_bytes=1024274)
    verdict = compare(sizes, {PLACE: counted})
    assert (verdict.rules, verdict.mismatches) == ({}, [])


def test_packet_that_was_counted_and_not_seen_is_unseen():
    verdict = compare([size("rx", 86, 3)], {PLACE: Counters(rx_packets=4, rx_bytes=344)})
    assert verdict.unseen == {"client:veth0 rx": Unseen(packets=1, bytes=86, share=0.25)}
    assert not verdict.mismatches


def test_share_unseen_is_of_bytes_where_that_is_more():
    """One large packet among 999 small ones is a thousandth of the packets and most of the bytes."""
    counted = Counters(rx_packets=1000, rx_bytes=999 * 86 + 512_094)
    (unseen,) = compare([size("rx", 86, 999)], {PLACE: counted}).unseen.values()
    assert (unseen.packets, unseen.bytes) == (1, 512_094)
    assert unseen.share == 512_094 / (999 * 86 + 512_094)


def test_unseen_packet_of_a_veth_that_counts_without_the_ethernet_header():
    counted = Counters(tx_packets=1001, tx_bytes=1001 * 1500)
    (unseen,) = compare([size("tx", 1514, 1000)], {PLACE: counted}).unseen.values()
    assert (unseen.packets, unseen.bytes) == (1, 1500)


def test_more_packets_seen_than_counted_is_a_mismatch():
    verdict = compare([size("rx", 86, 5)], {PLACE: Counters(rx_packets=4, rx_bytes=344)})
    assert verdict.mismatches == ["client:veth0 rx: 5 packets 430 bytes seen, 4 packets 344 bytes counted"]
    assert not verdict.unseen


def test_packets_missing_and_their_bytes_impossible_is_a_mismatch():
    """One packet cannot have carried 2 MB."""
    counted = Counters(rx_packets=4, rx_bytes=258 + 2_000_000)
    assert compare([size("rx", 86, 3)], {PLACE: counted}).mismatches


def test_packets_right_and_bytes_wrong_is_a_mismatch():
    assert compare([size("rx", 100, 1)], {PLACE: Counters(rx_packets=1, rx_bytes=87)}).mismatches


def test_device_that_saw_nothing_and_counted_nothing_matches():
    assert not compare([], {PLACE: Counters()}).mismatches


def test_veth_with_napi_counts_without_the_ethernet_header():
    """Recorded on Linux 6.18: TSO off at the sender, GRO on at the receiver."""
    sizes = [size("tx", 1514, 230_000), size("tx", 1219, 1133)]
    counted = Counters(tx_packets=231_133, tx_bytes=349_601_127 - 14 * 231_133)
    verdict = compare(sizes, {PLACE: counted})
    assert verdict.rules == {"client:veth0 tx": "without Ethernet header"}
    assert not verdict.mismatches


def merged(packets, octets):
    """45 full segments merged into one packet 10 times, and 3 ACKs, against these counters."""
    sizes = [size("rx", 86 + 45 * 1428, 10, 1428, 45), size("rx", 86, 3)]
    return compare(sizes, {PLACE: Counters(rx_packets=packets, rx_bytes=octets)}, merging=GRO)


def test_merged_packets_are_compared_as_the_segments_they_stand_for():
    verdict = merged(453, 450 * 1514 + 3 * 86)
    assert verdict.rules == {"client:veth0 rx": "merged by GRO, segments with headers of 86 bytes"}
    assert not verdict.mismatches


def test_merged_packets_counted_without_ethernet_header_match_too():
    assert not merged(453, 450 * 1500 + 3 * 72).mismatches


def test_missing_segment_is_unseen_under_the_rule_for_gro():
    (unseen,) = merged(454, 451 * 1514 + 3 * 86).unseen.values()
    assert unseen.packets == 1


def test_missing_bytes_are_a_mismatch_under_the_rule_for_gro():
    assert merged(453, 450 * 1514 + 3 * 86 - 1).mismatches


def test_rule_for_gro_needs_gro():
    sizes = [size("rx", 86 + 45 * 1428, 10, 1428, 45)]
    verdict = compare(sizes, {PLACE: Counters(rx_packets=450, rx_bytes=450 * 1514)})
    assert verdict.unseen and not verdict.rules


def test_packets_that_the_driver_dropped_had_been_seen():
    sizes = [size("tx", 1514, 100)]
    verdict = compare(sizes, {PLACE: Counters(tx_packets=97, tx_bytes=97 * 1514, drops=3)})
    assert verdict.rules == {"client:veth0 tx": "3 dropped after they were seen"}


def test_packets_too_large_for_a_tunnel_are_its_transmit_errors():
    """vxlan on 6.18 takes an IPv6 packet above 65535, sees it, and then cannot send it."""
    sizes = [size("tx", 1514, 100), size("tx", 80_000, 41)]
    verdict = compare(sizes, {PLACE: Counters(tx_packets=100, tx_bytes=100 * 1514, errors=41)})
    assert verdict.rules == {"client:veth0 tx": "41 dropped after they were seen"}


def test_more_packets_than_the_drops_explain_is_a_mismatch():
    sizes = [size("tx", 1514, 100)]
    assert compare(sizes, {PLACE: Counters(tx_packets=96, tx_bytes=96 * 1514, drops=3)}).mismatches


def test_drops_of_a_veth_that_counts_without_the_ethernet_header():
    """Recorded on Linux 6.18: TSO off at the sender, whose ring to a NAPI peer was full for 90 packets."""
    counted = Counters(tx_packets=116_554, tx_bytes=116_554 * 1442, drops=90)
    assert not compare([size("tx", 1456, 116_644)], {PLACE: counted}).mismatches
    assert compare([size("tx", 1456, 116_645)], {PLACE: counted}).mismatches


def test_jumbo_option_that_gro_adds_to_ipv6_is_no_part_of_the_segments():
    """Linux 6.18, IPv6, 64 segments of 1370 bytes: 87680 and headers of 86, and the option of 8."""
    counted = Counters(rx_packets=64 * 10, rx_bytes=64 * 10 * 1456)
    assert not compare([size("rx", 87_774, 10, 1370, 64)], {PLACE: counted}, GRO).mismatches
    assert compare([size("rx", 87_775, 10, 1370, 64)], {PLACE: counted}, GRO).mismatches


def test_difference_counts_from_zero_for_a_device_that_came_later():
    before = {PLACE: Counters(rx_packets=10, drops=1)}
    after = {PLACE: Counters(rx_packets=15, drops=1), "client:veth1": Counters(tx_bytes=7)}
    assert difference(before, after) == {
        PLACE: Counters(rx_packets=5),
        "client:veth1": Counters(tx_bytes=7),
    }
