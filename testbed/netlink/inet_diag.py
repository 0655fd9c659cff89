"""TCP_INFO of the sockets of a namespace, by sock_diag: all of them, or one again."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink import NETLINK_SOCK_DIAG, NLM_F_DUMP, nla
from pyroute2.netlink.marshal import Marshal

from testbed.errors import TestbedError
from testbed.netlink.channel import Channel, Refusal
from testbed.netlink.namespaces import own_namespace
from testbed.netlink.parts import copy_without
from testbed.netlink.remembered import numbers
from testbed.netlink.request import Request, decoded, request

# Its messages without its socket, which takes asyncio and ssl: a second more in an emulated guest.
diag = copy_without(
    "pyroute2.netlink.diag", "pyroute2.netlink.nlsocket", Marshal=Marshal, NetlinkSocket=object
)
# All but those that have no flow, or no TCP_INFO.
_STATES = diag.SS_ALL & ~(1 << diag.SS_LISTEN | 1 << diag.SS_TIME_WAIT)
_WANTED = sum(1 << numbers(diag.inet_diag_msg)[name] - 1 for name in ("INET_DIAG_INFO", "INET_DIAG_CONG"))
_IDENTITY = ("idiag_sport", "idiag_dport", "idiag_if", "idiag_cookie")
_GONE = {errno.ENOENT, errno.ESTALE}

# Fields of struct tcp_info by the names of our records.
_INFO = {
    "snd_mss": "tcpi_snd_mss",
    "pmtu": "tcpi_pmtu",
    "rtt_us": "tcpi_rtt",
    "rttvar_us": "tcpi_rttvar",
    "snd_cwnd": "tcpi_snd_cwnd",
    "retrans": "tcpi_total_retrans",
    "min_rtt_us": "tcpi_min_rtt",
    "delivered": "tcpi_delivered",
    "delivered_ce": "tcpi_delivered_ce",
    "reord_seen": "tcpi_reord_seen",
    "snd_wnd": "tcpi_snd_wnd",
    "pacing_rate": "tcpi_pacing_rate",
    "bytes_acked": "tcpi_bytes_acked",
    "bytes_received": "tcpi_bytes_received",
    "delivery_rate": "tcpi_delivery_rate",
    "busy_us": "tcpi_busy_time",
    "rwnd_limited_us": "tcpi_rwnd_limited",
    "sndbuf_limited_us": "tcpi_sndbuf_limited",
    "bytes_sent": "tcpi_bytes_sent",
    "bytes_retrans": "tcpi_bytes_retrans",
}


@dataclass(frozen=True)
class TcpSocket:
    """A connected TCP socket. `identity`: what finds it again. `info`: TCP_INFO as far as it is there."""

    family: int
    identity: Mapping[str, Any]
    source: str
    source_port: int
    destination: str
    destination_port: int
    state: int
    congestion: str
    info: dict[str, int]


class TcpSockets:
    """Reads the TCP sockets of the namespace it was made in. Make it by `Node.call(TcpSockets)`."""

    def __init__(self) -> None:
        namespace = own_namespace()
        try:
            self._channel = Channel(namespace, NETLINK_SOCK_DIAG)
        finally:
            os.close(namespace)

    def dump(self) -> list[TcpSocket]:
        """Every connected socket, IPv4 and IPv6. TestbedError on a kernel without CONFIG_INET_DIAG.

        For each family the kernel goes through its table of all namespaces' sockets, used or not: a
        quarter of a millisecond for the 262144 places of a machine with a few GB.
        """
        requests = [_request(family, NLM_F_DUMP, {}) for family in (socket.AF_INET, socket.AF_INET6)]
        try:
            return [decode(data) for request in requests for data in self._channel.dump(request)]
        except TestbedError as error:
            raise _unreadable(error) from None

    def again(self, known: TcpSocket) -> TcpSocket | None:
        """The same socket as it is now, by a look-up; None where it is connected no more."""
        answer = self._channel.ask(_request(known.family, 0, known.identity))
        if isinstance(answer, Refusal):
            if answer.errno in _GONE:
                return None
            raise _unreadable(answer)
        found = decode(answer)
        return found if 1 << found.state & _STATES else None

    def close(self) -> None:
        self._channel.close()


def _unreadable(reason: object) -> TestbedError:
    return TestbedError(f"cannot read TCP_INFO ({reason}); it needs CONFIG_INET_DIAG")


def _request(family: int, flags: int, identity: Mapping[str, Any]) -> Request:
    message = diag.inet_diag_req()
    message["sdiag_family"], message["sdiag_protocol"] = family, socket.IPPROTO_TCP
    message["idiag_ext"], message["idiag_states"] = _WANTED, _STATES
    for name, value in identity.items():
        message[name] = value
    return request(message, diag.SOCK_DIAG_BY_FAMILY, flags)


def decode(data: bytes) -> TcpSocket:
    """A struct inet_diag_msg with its attributes, behind its header."""
    # pyroute2 decodes all of the tcp_info that it knows, which on an older kernel is more than there is.
    message = decoded(diag.inet_diag_msg, data + bytes(diag.inet_diag_msg.tcp_info.get_size()))
    family, source, destination = (message[f"idiag_{name}"] for name in ("family", "src", "dst"))
    identity = {name: message[name] for name in _IDENTITY}
    # And it decodes addresses to text, but encodes them from words.
    for name, address in (("idiag_src", source), ("idiag_dst", destination)):
        identity[name] = struct.unpack("!4I", socket.inet_pton(family, address).ljust(16, b"\0"))
    info = message.get_attr("INET_DIAG_INFO")
    known = dict(_fields(info)) if info else {}
    return TcpSocket(
        family=family,
        identity=identity,
        source=source,
        source_port=message["idiag_sport"],
        destination=destination,
        destination_port=message["idiag_dport"],
        state=message["idiag_state"],
        congestion=message.get_attr("INET_DIAG_CONG") or "",
        info={name: known[field] for name, field in _INFO.items() if field in known},
    )


def _fields(info: nla) -> Iterator[tuple[str, int]]:
    """The fields of a struct tcp_info that the kernel's is long enough for: it only ever grows at its end."""
    end = struct.calcsize("".join(form for _, form in info.header))
    for name, form in info.fields:
        end += struct.calcsize(form)
        if end <= info.length:
            yield name, info[name]
