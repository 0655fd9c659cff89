"""Packet sizes without a kernel: decoding of map entries, records, comparison with counters."""

import struct

from testbed.evidence.bpf_sizes import KEY, PLACE, decode, in_hash, in_places, unpack_key
from testbed.evidence.packet_sizes import records
from testbed.evidence.sizes import SizeKey
from testbed.lab.lab import LabDevice

CLIENT = LabDevice("client", "veth0", "veth", 2)
DEVICES = {(4026532387, 2): CLIENT}
WRITE = SizeKey(4026532387, 2, True, 512094, 1428, 359, 17)
ACK = SizeKey(4026532387, 2, False, 86, 0, 0, 0)


def packed(key: SizeKey) -> bytes:
    """The key as the C program makes it."""
    return KEY.pack(
        key.netns | key.ifindex << 32,
        key.size | key.gso_size << 32 | key.gso_segs << 48,
        (key.nr_frags or 0) | key.tx << 8,
    )


def test_structures_have_the_layout_of_the_c_program():
    assert (KEY.size, PLACE.size) == (24, 32)


def test_every_part_of_a_key_comes_back():
    extreme = SizeKey(0xF0FFFFFF, 0x7FFFFFFF, True, 524294, 65535, 65535, 255)
    assert [unpack_key(packed(key)) for key in (WRITE, ACK, extreme)] == [WRITE, ACK, extreme]


def test_counts_of_all_cpus_and_of_both_maps_are_added():
    empty = bytes(PLACE.size)
    of_a_set = struct.pack("=q", 3) + packed(WRITE) + empty + struct.pack("=q", 4) + packed(ACK) + empty
    entries = [*in_places([(b"", of_a_set)]), *in_hash([(packed(WRITE), struct.pack("=qq", 20, 7))])]
    assert decode(entries) == {WRITE: 30, ACK: 4}


def test_attempt_taken_back_on_another_cpu_leaves_nothing():
    assert decode([(packed(WRITE), 1), (packed(WRITE), -1)]) == {}


def test_record_has_whole_flow_and_measured_part():
    (record,) = records(DEVICES, {WRITE: 5}, {WRITE: 30}, {WRITE: 105})
    assert (record.packets, record.measured_packets) == (100, 75)
    assert (record.node, record.device, record.direction) == ("client", "veth0", "tx")
    assert (record.size, record.gso_size, record.gso_segs, record.nr_frags) == (512094, 1428, 359, 17)


def test_without_the_end_of_the_omitted_seconds_everything_is_measured():
    (record,) = records(DEVICES, {WRITE: 5}, {}, {WRITE: 105})
    assert (record.packets, record.measured_packets) == (100, 100)


def test_packets_from_before_the_round_and_of_other_devices_are_left_out():
    elsewhere = ACK._replace(ifindex=7)
    assert records(DEVICES, {ACK: 9}, {ACK: 9}, {ACK: 9, elsewhere: 4}) == []


def test_records_stand_largest_first_within_each_direction():
    found = records(DEVICES, {}, {}, {WRITE._replace(size=862): 1, ACK: 1, WRITE: 1})
    assert [(r.direction, r.size) for r in found] == [("rx", 86), ("tx", 512094), ("tx", 862)]
