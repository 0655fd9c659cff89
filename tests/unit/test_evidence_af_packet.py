"""What the packet socket's source works out from headers."""

from testbed.evidence.af_packet import _key, _transport_header

NETNS = 4026532387
OUTGOING, HOST = 4, 0


def test_number_of_segments_follows_from_size_headers_and_gso_size():
    """511318 bytes of IPv6 BIG TCP on Linux 6.18: 358 segments of 1428, headers 86, hop-by-hop option 8."""
    key = _key(NETNS, (2, OUTGOING, 511318, 1428, 94))
    assert (key.tx, key.size, key.gso_size, key.gso_segs) == (True, 511318, 1428, 358)
    assert key.nr_frags is None


def test_last_segment_may_be_short():
    assert _key(NETNS, (2, HOST, 512094, 1428, 94)).gso_segs == 359


def test_packet_without_gso_has_no_segments():
    key = _key(NETNS, (2, HOST, 86, 0, 0))
    assert (key.tx, key.gso_segs) == (False, 0)


def test_header_length_is_tcps_own_or_udps_eight():
    assert _transport_header(4, 0x80) == 32  # TCPV6, data offset 8 words
    assert _transport_header(0x81, 0x50) == 20  # TCPV4 with ECN
    assert _transport_header(5, 0xFF) == 8  # UDP_L4
