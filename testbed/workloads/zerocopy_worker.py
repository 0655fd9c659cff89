"""One end of a zerocopy test: the process that runs inside a node.

    python -I -S zerocopy_worker.py send|receive JSON

The sender waits for a line on stdin, connects, writes `started`, and sends the
same pages again and again; the receiver does nothing but receive. Each prints
one JSON object at its end. It imports the standard library alone, as every round starts two of it.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import socket
import struct
import sys
import time
from typing import Any

# Not in Python's modules: include/uapi/asm-generic/socket.h, linux/socket.h, linux/mman.h.
SO_ZEROCOPY = 60
MSG_ZEROCOPY = 0x4000000
MAP_HUGETLB = 0x40000
MAP_HUGE_2MB = 21 << 26
HUGE_PAGE = 2 << 20
# struct sock_extended_err: errno, origin, type, code, pad, info, data (include/uapi/linux/errqueue.h).
EXTENDED_ERROR = struct.Struct("=IBBBBII")
ORIGIN_ZEROCOPY = 5
CODE_COPIED = 1
TOTAL_RETRANS = 100  # offset of tcpi_total_retrans in struct tcp_info
DRAIN_EVERY = 32  # sends between two looks at the error queue
LAST_COMPLETIONS_S = 3.0


def send(config: dict[str, Any]) -> dict[str, Any]:
    """Send for the warm-up and measured seconds (omit + duration)."""
    view = memoryview(_pages(config))[: config["length"]]  # unmapped when the process ends
    with _connection(config) as sock:
        sender = Sender(sock, view, config["zerocopy"])
        ends = {"local": sock.getsockname()[:2], "remote": sock.getpeername()[:2]}
        os.write(1, b"started\n")
        sender.send_until(time.monotonic() + config["omit"] + config["duration"])
        sock.shutdown(socket.SHUT_WR)
        sender.wait_for_completions(LAST_COMPLETIONS_S)
        return {
            **ends,
            **sender.counts,
            "congestion": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
            .rstrip(b"\0")
            .decode(),
            "retransmits": struct.unpack_from("=I", _tcp_info(sock), TOTAL_RETRANS)[0],
        }


def receive(config: dict[str, Any]) -> dict[str, Any]:
    """Accept one connection and receive until it ends; the figures after the warm-up seconds (`omit`)."""
    buffer = bytearray(1 << 20)
    with socket.create_server(("", config["port"]), family=_family(config)) as server:
        sock, _ = server.accept()
    with sock:
        start = time.monotonic()
        while time.monotonic() - start < config["omit"] and sock.recv_into(buffer):
            pass
        begun, received = time.monotonic(), 0
        while count := sock.recv_into(buffer):
            received += count
        # To the end of the connection: the sender's last seconds may have been a stall.
        ended = time.monotonic()
    return {"bytes": received, "seconds": ended - begun}


class Sender:
    """Sends one buffer over and over, and counts its completions on the error queue."""

    def __init__(self, sock: socket.socket, view: memoryview, zerocopy: bool) -> None:
        self.sock = sock
        self.view = view
        self.flags = MSG_ZEROCOPY if zerocopy else 0
        self.counts = {"sends": 0, "completions": 0, "copied": 0, "enobufs": 0}

    def send_until(self, end: float) -> None:
        counts = self.counts
        while time.monotonic() < end:
            try:
                self.sock.send(self.view, self.flags)
                counts["sends"] += 1
            except OSError as error:
                if error.errno != 105:  # ENOBUFS: optmem is full of completions that nobody read
                    raise
                counts["enobufs"] += 1
                self._wait(0.1)
            if self.flags and counts["sends"] % DRAIN_EVERY == 0:
                self._read()

    def wait_for_completions(self, seconds: float) -> None:
        """Read completions until there is one for each send, `seconds` at most."""
        end = time.monotonic() + seconds
        while self.flags and self.counts["completions"] < self.counts["sends"] and time.monotonic() < end:
            self._wait(0.1)

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self.sock, 0)  # POLLERR is always reported
        poll.poll(seconds * 1000)
        self._read()

    def _read(self) -> None:
        """Take in what the error queue holds: each entry is a range of sends."""
        while True:
            try:
                _, ancillary, _, _ = self.sock.recvmsg(0, 256, socket.MSG_ERRQUEUE)
            except BlockingIOError:
                return
            for _, _, data in ancillary:
                _, origin, _, code, _, first, last = EXTENDED_ERROR.unpack_from(data)
                if origin == ORIGIN_ZEROCOPY:
                    count = last - first + 1
                    self.counts["completions"] += count
                    self.counts["copied"] += count if code == CODE_COPIED else 0


def _pages(config: dict[str, Any]) -> mmap.mmap:
    """Memory to send from, every page of it there."""
    size = -(-config["length"] // HUGE_PAGE) * HUGE_PAGE
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if config["pages"] == "huge":
        pages = mmap.mmap(-1, size, private | MAP_HUGETLB | MAP_HUGE_2MB)
    else:
        pages = mmap.mmap(-1, size, private)
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    pages.write(b"\xa5" * size)
    return pages


def _connection(config: dict[str, Any]) -> socket.socket:
    sock = socket.socket(_family(config), socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("", config["client_port"] or 0))
    if name := config["congestion"]:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            sys.exit(f"send: congestion control {name}: {error.strerror}")
    if config["zerocopy"]:
        sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    if not sys.stdin.buffer.readline():
        sys.exit(0)  # the other side of the pipe is gone: nobody waits for a result
    sock.connect((config["address"], config["port"]))
    return sock


def _family(config: dict[str, Any]) -> int:
    return socket.AF_INET6 if config["family"] == 6 else socket.AF_INET


def _tcp_info(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)


if __name__ == "__main__":
    try:
        result = {"send": send, "receive": receive}[sys.argv[1]](json.loads(sys.argv[2]))
    except OSError as error:
        # Not error.strerror: socket.create_server adds to it.
        sys.exit(f"{sys.argv[1]}: {os.strerror(error.errno or 0)} (errno {error.errno})")
    print(json.dumps(result), flush=True)
