"""Counters of the stack from the files of /proc/net."""

from testbed.evidence.protocol_counters import moved, parse, softnet

NETSTAT = """TcpExt: SyncookiesSent TCPBacklogDrop ListenDrops TCPLossProbes
TcpExt: 7 3 0 12
IpExt: InNoRoutes InOctets
IpExt: 0 99
"""
SOFTNET = """0041a66f 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000
00000010 00000002 00000004 00000000 00000000 00000000 00000000 00000000 00000000 00000000
"""


def test_kept_counters_have_the_name_of_their_group():
    assert parse(NETSTAT) == {"TcpExtTCPBacklogDrop": 3, "TcpExtListenDrops": 0, "TcpExtTCPLossProbes": 12}


def test_only_counters_that_moved_remain():
    assert moved({"a": 1, "b": 2}, {"a": 1, "b": 5, "c": 1}) == {"b": 3, "c": 1}


def test_softnet_is_hexadecimal_and_added_over_the_cpus():
    found = softnet(SOFTNET)
    assert (found.processed, found.dropped, found.time_squeeze) == (0x41A66F + 16, 2, 5)
