"""The state of the round's TCP flow, sampled while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from testbed.evidence.sampling import Sampler
from testbed.lab.lab import Lab
from testbed.netlink.inet_diag import TcpSocket, TcpSockets
from testbed.records.round import Tcp, TcpSample, Tuple

_SAMPLED = frozenset(TcpSample.__struct_fields__)
# At first a tool's control connection may have sent more than the flow.
_FIRST_LOOKS = 3
_Flow = tuple[str, str, int, str, int]  # node, source, port, destination, port


class TcpState:
    """Collector: `tcp`, of the socket that sent most, as last seen (the end is at most one interval later).

    Samples begin with the measured seconds. In the first looks and every second all sockets are searched
    for, and in between the one that had sent most is looked at alone.
    """

    name = "tcp"

    def __init__(self) -> None:
        self._nodes: dict[str, TcpSockets] = {}
        self._first: dict[_Flow, int] = {}  # bytes acknowledged when it was first seen
        self._last: dict[_Flow, TcpSocket] = {}
        self._samples: dict[_Flow, list[TcpSample]] = {}
        self._foremost: tuple[str, TcpSocket] | None = None
        self._began = 0.0
        self._looks = 0
        self._sampler = Sampler(self._look)

    def start(self, lab: Lab) -> None:
        self.close()
        self._first, self._last, self._samples = {}, {}, {}
        self._foremost = None
        for name, node in lab.nodes.items():
            if node.netns is not None:
                self._nodes[name] = node.call(TcpSockets)

    def measuring(self) -> None:
        self._began = time.monotonic()
        self._looks = 0
        self._sampler.start()

    def stop(self) -> Mapping[str, Any]:
        self.close()
        if not self._last:
            return {}
        flow = max(self._last, key=lambda flow: sent(self._last[flow]))
        found = record(flow[0], self._last[flow], self._samples[flow])
        grown = [max(0, acked(one) - self._first[flow]) for flow, one in self._last.items()]
        moved = [octets for octets in grown if octets]
        return {"tcp": structs.replace(found, acked_bytes=sum(moved), sockets=len(moved))}

    def close(self) -> None:
        self._sampler.stop()
        while self._nodes:
            self._nodes.popitem()[1].close()

    def _look(self, search: bool) -> None:
        at = round(time.monotonic() - self._began, 3)
        self._looks += 1
        found = self._search() if search or self._looks <= _FIRST_LOOKS else self._look_again()
        for node, one in found:
            flow = node, one.source, one.source_port, one.destination, one.destination_port
            self._last[flow] = one
            self._first.setdefault(flow, acked(one))
            self._samples.setdefault(flow, []).append(sample(at, one))

    def _search(self) -> list[tuple[str, TcpSocket]]:
        found = [(node, one) for node, sockets in self._nodes.items() for one in sockets.dump()]
        self._foremost = max(found, key=lambda item: sent(item[1]), default=None)
        return found

    def _look_again(self) -> list[tuple[str, TcpSocket]]:
        """The socket that had sent most; all, where there was none or it is gone."""
        if self._foremost:
            node, known = self._foremost
            if now := self._nodes[node].again(known):
                return [(node, now)]
        return self._search()


def sent(one: TcpSocket) -> int:
    """Bytes sent, retransmissions included; 0 on a kernel that does not report them."""
    return one.info.get("bytes_sent", 0)


def acked(one: TcpSocket) -> int:
    """Bytes that its peer has acknowledged; 0 on a kernel that does not report them."""
    return one.info.get("bytes_acked", 0)


def record(node: str, last: TcpSocket, samples: list[TcpSample]) -> Tcp:
    """The record's fields from a socket of `node`."""
    known = {name: value for name, value in last.info.items() if name in Tcp.__struct_fields__}
    ends = Tuple(
        source=last.source,
        source_port=last.source_port,
        destination=last.destination,
        destination_port=last.destination_port,
    )
    return Tcp(node=node, tuple=ends, congestion=last.congestion, samples=samples, **known)


def sample(at: float, found: TcpSocket) -> TcpSample:
    """What is kept of a socket seen `at` seconds after measuring began."""
    known = {name: value for name, value in found.info.items() if name in _SAMPLED}
    return TcpSample(at_s=at, **known)
