"""TCP_INFO of the sockets of a namespace, by sock_diag: all of them, or one again. Decoding is pure."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.errors import TestbedError
from testbed.records.round import Tuple

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, net/tcp_states.h
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_INFO, _CONG = 2, 4
_ESTABLISHED = 1
# All but LISTEN, TIME_WAIT and NEW_SYN_RECV: those have no flow, or no TCP_INFO.
_STATES = 0xFFF & ~(1 << 10 | 1 << 6 | 1 << 12)
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_MESSAGE_BYTES = 72
# struct inet_diag_sockid in a message: ports, addresses, the device it is bound to, and a cookie.
_IDENTITY = slice(4, 52)
_ANY_SOCKET = bytes(48)
_GONE = {errno.ENOENT, errno.ESTALE}

# Offsets in struct tcp_info (linux/tcp.h), which only ever grows at its end.
_U32 = {
    "snd_mss": 16,
    "pmtu": 60,
    "rtt_us": 68,
    "rttvar_us": 72,
    "snd_cwnd": 80,
    "retrans": 100,
    "min_rtt_us": 148,
    "delivered": 192,
    "delivered_ce": 196,
    "reord_seen": 220,
    "snd_wnd": 228,
}
_U64 = {
    "pacing_rate": 104,
    "bytes_acked": 120,
    "bytes_received": 128,
    "delivery_rate": 160,
    "busy_us": 168,
    "rwnd_limited_us": 176,
    "sndbuf_limited_us": 184,
    "bytes_sent": 200,
    "bytes_retrans": 208,
}


@dataclass(frozen=True)
class TcpSocket:
    """A connected TCP socket. `identity`: struct inet_diag_sockid. `info`: TCP_INFO as far as it is there."""

    family: int
    identity: bytes
    tuple: Tuple
    state: int
    congestion: str
    info: dict[str, int]


class TcpSockets:
    """Reads the TCP sockets of the namespace it was made in. Make it by `Node.call(TcpSockets)`."""

    def __init__(self) -> None:
        """TestbedError on a kernel without CONFIG_INET_DIAG."""
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG)
        self._socket.settimeout(5.0)
        self._sequence = 0

    def dump(self) -> list[TcpSocket]:
        """Every connected socket, IPv4 and IPv6.

        For each family the kernel goes through its table of all namespaces' sockets, used or not: a
        quarter of a millisecond for the 262144 places of a machine with a few GB.
        """
        return [found for family in (socket.AF_INET, socket.AF_INET6) for found in self._ask(family, _DUMP)]

    def again(self, known: TcpSocket) -> TcpSocket | None:
        """The same socket as it is now, by a look-up; None where it is connected no more."""
        found = next(self._ask(known.family, 0, known.identity), None)
        return found if found and 1 << found.state & _STATES else None

    def close(self) -> None:
        self._socket.close()

    def _ask(self, family: int, flags: int, identity: bytes = _ANY_SOCKET) -> Iterator[TcpSocket]:
        self._sequence += 1
        wanted = 1 << (_INFO - 1) | 1 << (_CONG - 1)
        body = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, wanted, _STATES) + identity
        size = _HEADER.size + len(body)
        flags |= _REQUEST
        self._socket.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, flags, self._sequence, 0) + body)
        while True:
            data = self._socket.recv(1 << 17)
            offset = 0
            while offset + _HEADER.size <= len(data):
                length, kind, _, sequence, _ = _HEADER.unpack_from(data, offset)
                message = data[offset + _HEADER.size : offset + length]
                offset += (length + 3) & ~3
                if sequence != self._sequence:
                    continue
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", message)[0]
                    if code in _GONE:
                        return
                    raise TestbedError(
                        f"cannot read TCP_INFO: kernel error {code}; it needs CONFIG_INET_DIAG"
                    )
                yield decode(message)
                if not flags & _DUMP:
                    return


def decode(message: bytes) -> TcpSocket:
    """A struct inet_diag_msg with its attributes."""
    family, state = message[0], message[1]
    source_port, destination_port = struct.unpack_from("!HH", message, 4)
    length = 4 if family == socket.AF_INET else 16
    source, destination = (socket.inet_ntop(family, message[at : at + length]) for at in (8, 24))
    attributes = dict(_attributes(message))
    return TcpSocket(
        family,
        message[_IDENTITY],
        Tuple(
            source=source,
            source_port=source_port,
            destination=destination,
            destination_port=destination_port,
        ),
        state,
        attributes.get(_CONG, b"").rstrip(b"\0").decode(),
        decode_info(attributes.get(_INFO, b"")),
    )


def decode_info(info: bytes) -> dict[str, int]:
    """The fields of a struct tcp_info; those beyond its end are left out."""
    fields = {name: struct.unpack_from("=I", info, at)[0] for name, at in _U32.items() if at + 4 <= len(info)}
    long = {name: struct.unpack_from("=Q", info, at)[0] for name, at in _U64.items() if at + 8 <= len(info)}
    return fields | long


def _attributes(message: bytes) -> Iterator[tuple[int, bytes]]:
    offset = _MESSAGE_BYTES
    while offset + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        yield kind, message[offset + _ATTRIBUTE.size : offset + length]
        offset += max(4, (length + 3) & ~3)
