"""A netlink socket inside a namespace, kept open: batches out, errors with the kernel's own text back."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple

from testbed.errors import TestbedError
from testbed.netlink.message import NLM_F_ACK, Request, attributes
from testbed.netlink.namespaces import entered
from testbed.slowness import scaled

NETLINK_ROUTE, NETLINK_GENERIC = 0, 16
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_MULTI, NLM_F_CAPPED, NLM_F_ACK_TLVS, NLM_F_DUMP_INTR = 0x2, 0x100, 0x200, 0x10
NLMSGERR_ATTR_MSG = 1
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK = 270, 10, 11

# Few enough that an error for every message of a batch fits the receive buffer.
BATCH_MESSAGES = 100
BATCH_BYTES = 64 * 1024
TIMEOUT_S = scaled(10.0)

_HEADER = struct.Struct("=IHHII")


class Refusal(NamedTuple):
    """The kernel's no to one request of a batch: its place there, errno, and text where it gave one."""

    position: int
    errno: int
    text: str

    def __str__(self) -> str:
        return f"kernel: {self.text}" if self.text else f"kernel: {os.strerror(self.errno)}"


class Channel:
    """A netlink socket (rtnetlink unless said otherwise) in the namespace of a descriptor."""

    def __init__(self, namespace: int, protocol: int = NETLINK_ROUTE) -> None:
        with entered(namespace):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self._socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        self._socket.settimeout(TIMEOUT_S)
        self._sequence = 0
        self._lock = Lock()  # evidence reads from a thread of its own

    def close(self) -> None:
        self._socket.close()

    def send(self, requests: Sequence[Request]) -> list[Refusal]:
        """Have the kernel do `requests` in their order; what it refused, in the same order.

        A refused request does not keep the kernel from doing those behind it.
        """
        refusals: list[Refusal] = []
        for start, batch in _batches(requests):
            refusals.extend(
                refusal._replace(position=start + refusal.position) for refusal in self._batch(batch)
            )
        return refusals

    def _batch(self, batch: Sequence[Request]) -> list[Refusal]:
        with self._lock:
            return self._exchange(batch)

    def _exchange(self, batch: Sequence[Request]) -> list[Refusal]:
        """One send. Only the last request asks for an ack: an error is reported without asking."""
        first = self._sequence + 1
        self._sequence += len(batch)
        last = self._sequence
        data = b"".join(
            request.encode(first + index, NLM_F_ACK if first + index == last else 0)
            for index, request in enumerate(batch)
        )
        self._socket.send(data)
        refusals = []
        while True:
            for kind, flags, sequence, body in _messages(self._receive()):
                if kind != NLMSG_ERROR or not first <= sequence <= last:
                    continue
                code = -struct.unpack_from("=i", body)[0]
                if code:
                    refusals.append(Refusal(sequence - first, code, _text(flags, body)))
                if sequence == last:
                    return refusals

    def ask(self, request: Request) -> bytes | Refusal:
        """The body of the one answer to `request`, or the kernel's no."""
        with self._lock:
            return self._ask(request)

    def _ask(self, request: Request) -> bytes | Refusal:
        self._sequence += 1
        self._socket.send(request.encode(self._sequence, NLM_F_ACK))
        answer = b""
        while True:
            for kind, flags, sequence, body in _messages(self._receive()):
                if sequence != self._sequence:
                    continue
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    return Refusal(0, code, _text(flags, body)) if code else answer
                answer = body

    def dump(self, request: Request) -> list[bytes]:
        """The bodies of every answer to a dump, read again when it changed while being read."""
        while True:
            with self._lock:
                bodies, interrupted = self._dump(request)
            if not interrupted:
                return bodies

    def _dump(self, request: Request) -> tuple[list[bytes], bool]:
        self._sequence += 1
        self._socket.send(request.encode(self._sequence))
        bodies: list[bytes] = []
        interrupted = False
        while True:
            for kind, flags, sequence, body in _messages(self._receive()):
                if sequence != self._sequence:
                    continue
                interrupted |= bool(flags & NLM_F_DUMP_INTR)
                if kind == NLMSG_DONE:
                    return bodies, interrupted
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    raise TestbedError(f"cannot read from the kernel: {Refusal(0, code, _text(flags, body))}")
                bodies.append(body)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(1 << 16)
        except TimeoutError:
            raise TestbedError(
                f"the kernel did not answer a netlink request within {TIMEOUT_S:g} s"
            ) from None


def _batches(requests: Sequence[Request]) -> Iterator[tuple[int, Sequence[Request]]]:
    start = size = 0
    for index, request in enumerate(requests):
        if index > start and (index - start == BATCH_MESSAGES or size + len(request.body) > BATCH_BYTES):
            yield start, requests[start:index]
            start, size = index, 0
        size += len(request.body) + 16
    if start < len(requests):
        yield start, requests[start:]


def _messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    offset = 0
    while offset + 16 <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        yield kind, flags, sequence, data[offset + 16 : offset + length]
        offset += (length + 3) & ~3


def _text(flags: int, body: bytes) -> str:
    """The extended ack's message: attributes behind the error code and the request (capped to its header)."""
    if not flags & NLM_F_ACK_TLVS:
        return ""
    request = 16 if flags & NLM_F_CAPPED else struct.unpack_from("=I", body, 4)[0]
    found = dict(attributes(body, 4 + ((request + 3) & ~3)))
    return found.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode(errors="replace")
