"""Protocol counters per node (as netstat -s), and softnet counters of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.lab.lab import Lab
from testbed.records.round import Softnet

# Of some 300 counters those that tell of loss, pressure and retransmission; the names are the kernel's.
KEPT = {
    "Tcp": {"RetransSegs", "InErrs", "OutRsts", "AttemptFails", "EstabResets", "InCsumErrors"},
    "TcpExt": {
        "TCPLostRetransmit",
        "TCPFastRetrans",
        "TCPSlowStartRetrans",
        "TCPTimeouts",
        "TCPLossProbes",
        "TCPSpuriousRTOs",
        "TCPBacklogDrop",
        "TCPRcvQDrop",
        "TCPOFODrop",
        "TCPZeroWindowDrop",
        "TCPToZeroWindowAdv",
        "TCPMemoryPressures",
        "TCPAbortOnMemory",
        "TCPAbortOnTimeout",
        "TCPSackReorders",
        "TCPDSACKRecv",
        "TCPAutoCorking",
        "TCPSpuriousRtxHostQueues",
        "TCPRcvCollapsed",
        "RcvPruned",
        "PruneCalled",
        "ListenOverflows",
        "ListenDrops",
    },
    "Udp": {"InErrors", "RcvbufErrors", "SndbufErrors", "InCsumErrors", "NoPorts"},
    "Ip": {"InDiscards", "OutDiscards", "OutNoRoutes", "FragFails", "ReasmFails", "InHdrErrors"},
}


class StackCounters:
    """Collector: `netstat` (node -> counters that moved) and `softnet`, over the whole flow."""

    name = "stack_counters"

    def __init__(self) -> None:
        self._lab: Lab | None = None
        self._before: dict[str, dict[str, int]] = {}
        self._softnet = Softnet()

    def start(self, lab: Lab) -> None:
        self._lab = lab
        self._before, self._softnet = read(lab), softnet(_text("/proc/net/softnet_stat"))

    def measuring(self) -> None:
        pass

    def stop(self) -> Mapping[str, Any]:
        lab, self._lab = self._lab, None
        if lab is None:
            return {}
        after, before, now = read(lab), self._softnet, softnet(_text("/proc/net/softnet_stat"))
        return {
            "netstat": {
                node: moved(self._before.get(node, {}), counters) for node, counters in after.items()
            },
            "softnet": Softnet(
                processed=now.processed - before.processed,
                dropped=now.dropped - before.dropped,
                time_squeeze=now.time_squeeze - before.time_squeeze,
            ),
        }

    def close(self) -> None:
        pass


def read(lab: Lab) -> dict[str, dict[str, int]]:
    """The kept counters of each node."""
    return {name: node.call(_netstat) for name, node in lab.nodes.items()}


def parse(text: str) -> dict[str, int]:
    """`TcpExtTCPBacklogDrop` -> value, from pairs of lines of /proc/net/snmp or netstat."""
    found = {}
    lines = [line.split() for line in text.splitlines()]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group = names[0].rstrip(":")
        for name, value in zip(names[1:], values[1:], strict=True):
            if name in KEPT.get(group, ()):
                found[group + name] = int(value)
    return found


def moved(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The counters that differ, by how much."""
    return {n: value - before.get(n, 0) for n, value in after.items() if value != before.get(n, 0)}


def softnet(text: str) -> Softnet:
    """All CPUs' lines of /proc/net/softnet_stat added up (hexadecimal: processed, dropped, time_squeeze)."""
    rows = [[int(word, 16) for word in line.split()[:3]] for line in text.splitlines()]
    processed, dropped, squeezed = (sum(column) for column in zip(*rows, strict=True))
    return Softnet(processed=processed, dropped=dropped, time_squeeze=squeezed)


def _netstat() -> dict[str, int]:
    """In the namespace of the calling thread."""
    return parse(_text("/proc/thread-self/net/snmp")) | parse(_text("/proc/thread-self/net/netstat"))


def _text(path: str) -> str:
    return Path(path).read_text()
