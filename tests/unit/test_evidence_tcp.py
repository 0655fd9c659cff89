"""TCP_INFO from a recorded sock_diag message (Linux 6.18), and the record made of it."""

import pytest

from testbed.evidence.tcp import record, sample
from testbed.netlink.inet_diag import _request, decode
from testbed.netlink.remembered import MESSAGE_HEADER

BODY = bytes.fromhex(
    "0a010000dc641451fd010000000000000000000000000001fd010000000000000000000000000002000000002d000000"
    "0000000000000000000000000000000000000000d1940c00050008000000000008000f00000000000c00150001000000"
    "0000000006001600120000001c010200010000000007aa01e01c03000000000094050000180200000000000000000000"
    "00000000000000000000000068000000000000006800000068000000dc0500006cfa00006500000038000000ffffff7f"
    "12000000940500000300000000000000c837000000000000ebf84c1e00000000ffffffffffffffff1127000000000000"
    "00000000000000000a000000030000000000000020000000000000000800000040634715000000000000000000000000"
    "000000000000000000000000000000000900000000000000102700000000000000000000000000000000000000000000"
    "00000000004c010000000100000000000000000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000a0004006375626963000000"
)
INFO = BODY.index(bytes.fromhex("1c010200"))  # where INET_DIAG_INFO begins, with its header


def whole(body):
    return MESSAGE_HEADER.pack(MESSAGE_HEADER.size + len(body), 20, 0, 1, 0) + body


MESSAGE = whole(BODY)


def test_addresses_ports_and_congestion_control_are_read():
    found = decode(MESSAGE)
    assert (found.source, found.destination) == ("fd01::1", "fd01::2")
    assert (found.source_port, found.destination_port) == (56420, 5201)
    assert (found.state, found.congestion) == (1, "cubic")


def test_fields_of_tcp_info_are_read():
    info = decode(MESSAGE).info
    assert info["snd_mss"] == 1428
    assert info["pmtu"] == 1500
    assert (info["rtt_us"], info["rttvar_us"], info["min_rtt_us"]) == (101, 56, 32)
    assert (info["bytes_sent"], info["bytes_acked"], info["delivered"]) == (10000, 10001, 9)
    assert (info["snd_wnd"], info["snd_cwnd"], info["delivery_rate"]) == (84992, 18, 357_000_000)


def test_older_kernel_that_tells_less_leaves_fields_out():
    header = bytes.fromhex("6c000200")
    info = decode(whole(BODY[:INFO] + header + BODY[INFO + 4 : INFO + 108])).info
    assert info["snd_mss"] == 1428
    assert "retrans" in info
    assert "pacing_rate" not in info
    assert "snd_wnd" not in info
    assert decode(whole(BODY[:INFO])).info == {}


IPV4 = b"\2" + BODY[1:8] + b"\n\1\0\1" + bytes(12) + b"\n\1\0\2" + bytes(12) + BODY[40:]


@pytest.mark.parametrize("body", [BODY, IPV4])
def test_a_socket_is_looked_up_by_what_the_kernel_called_it(body):
    """The identity in a request, struct inet_diag_sockid, is the answer's."""
    found = decode(whole(body))
    assert _request(found.family, 0, found.identity).body[8:56] == body[4:52]


def test_record_has_the_last_state_and_the_samples():
    found = decode(MESSAGE)
    tcp = record("client", found, [sample(0.25, found)])
    assert (tcp.node, tcp.congestion, tcp.snd_mss, tcp.retrans) == ("client", "cubic", 1428, 0)
    assert (tcp.samples[0].at_s, tcp.samples[0].snd_cwnd) == (0.25, 18)
