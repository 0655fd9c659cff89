"""A netlink socket in a namespace: sends batches of requests, returns errors with the kernel's text."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple

from pyroute2.netlink import (
    NETLINK_EXT_ACK,
    NETLINK_ROUTE,
    NLM_F_ACK,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    SOL_NETLINK,
    nlmsgerr,
)

from testbed.errors import TestbedError
from testbed.netlink.namespaces import entered
from testbed.netlink.remembered import MESSAGE_HEADER, Answer
from testbed.netlink.request import Request
from testbed.slowness import scaled

# Few enough that an error for every message of a batch fits the receive buffer.
BATCH_MESSAGES = 100
BATCH_BYTES = 64 * 1024
TIMEOUT_S = scaled(10.0)


class Refusal(NamedTuple):
    """The kernel's error for one request of a batch: its index, errno, and text where there is one."""

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
        # And not NETLINK_CAP_ACK: pyroute2 loses the kernel's text behind a request that was cut off.
        self._socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self._socket.settimeout(TIMEOUT_S)
        self._sequence = 0
        self._lock = Lock()  # evidence reads from a thread of its own

    def close(self) -> None:
        self._socket.close()

    def send(self, requests: Sequence[Request]) -> list[Refusal]:
        """Send `requests` as a batch, in order. Returns the refusals, in the same order.

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
        first, last = self._sequence + 1, self._sequence + len(batch)
        self._socket.send(b"".join(map(self._framed, batch, [0] * (len(batch) - 1) + [NLM_F_ACK])))
        refusals = []
        while True:
            for kind, _, sequence, data in _messages(self._receive()):
                if kind != NLMSG_ERROR or not first <= sequence <= last:
                    continue
                if refusal := _refusal(data, sequence - first):
                    refusals.append(refusal)
                if sequence == last:
                    return refusals

    def ask(self, request: Request) -> bytes | Refusal:
        """The single answer to `request` (empty for a plain ack), or the kernel's refusal."""
        with self._lock:
            return self._ask(request)

    def _ask(self, request: Request) -> bytes | Refusal:
        self._socket.send(self._framed(request, NLM_F_ACK))
        answer = b""
        while True:
            for kind, _, sequence, data in _messages(self._receive()):
                if sequence != self._sequence:
                    continue
                if kind == NLMSG_ERROR:
                    return _refusal(data) or answer
                answer = data

    def dump(self, request: Request) -> list[bytes]:
        """Every message of a dump; repeated when the kernel marks it as interrupted."""
        while True:
            with self._lock:
                answers, interrupted = self._dump(request)
            if not interrupted:
                return answers

    def _dump(self, request: Request) -> tuple[list[bytes], bool]:
        self._socket.send(self._framed(request))
        answers: list[bytes] = []
        interrupted = False
        while True:
            for kind, flags, sequence, data in _messages(self._receive()):
                if sequence != self._sequence:
                    continue
                interrupted |= bool(flags & NLM_F_DUMP_INTR)
                if kind == NLMSG_DONE:
                    return answers, interrupted
                if kind == NLMSG_ERROR:
                    raise TestbedError(f"cannot read from the kernel: {_refusal(data)}")
                answers.append(data)

    def _framed(self, request: Request, flags: int = 0) -> bytes:
        """With its header, and the next sequence number in it."""
        self._sequence += 1
        size, flags = MESSAGE_HEADER.size + len(request.body), NLM_F_REQUEST | request.flags | flags
        return MESSAGE_HEADER.pack(size, request.type, flags, self._sequence, 0) + request.body

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
        size += len(request.body) + MESSAGE_HEADER.size
    if start < len(requests):
        yield start, requests[start:]


def _messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Type, flags and sequence number of each message, and all of it."""
    offset = 0
    while offset + MESSAGE_HEADER.size <= len(data):
        length, kind, flags, sequence, _ = MESSAGE_HEADER.unpack_from(data, offset)
        yield kind, flags, sequence, data[offset : offset + length]
        offset += (length + 3) & ~3


def _refusal(data: bytes, position: int = 0) -> Refusal | None:
    """What an NLMSG_ERROR says; None for an ack."""
    answer = Answer(nlmsgerr, data)
    if not answer["error"]:
        return None
    return Refusal(position, -answer["error"], answer.get_attr("NLMSGERR_ATTR_MSG", ""))
