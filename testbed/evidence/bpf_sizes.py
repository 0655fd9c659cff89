"""Packet sizes by BPF: what bpf/packet_sizes.bpf.c counted, read from its maps."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from testbed.errors import TestbedError
from testbed.evidence.build import OBJECT
from testbed.evidence.libbpf import Link, Map, Object
from testbed.evidence.sizes import SizeKey, Sizes
from testbed.topology.lab import Lab

PROGRAMS = ("receive", "transmit", "take_back")
KEY = struct.Struct("=IIIHHBBxx")  # struct size_key
_INDEX = struct.Struct("=I")
_WORD = struct.Struct("=Q")
_FIRST_INODE = 0xEFFFFFC0  # FIRST_INODE in the C program
_ZERO = _INDEX.pack(0)


class BpfSizes:
    """Loaded once for a run, attached for each round. See sizes.SizeSource."""

    name = "bpf"

    def __init__(self) -> None:
        """Load the program. MissingCapability where this kernel or user cannot."""
        self._object = Object(OBJECT)
        self._sizes = self._object.map("sizes")
        self._watched = self._object.map("watched")
        self._lost = self._object.map("lost")
        self._links: list[Link] = []
        self._namespaces: list[int] = []
        self._lost_before = 0

    def start(self, lab: Lab) -> None:
        # Only a packet that waits in a queue is offered again; without one it is dropped, and counted so.
        queueing = any(held["qdisc"] != "noqueue" for held in lab.held().values())
        self.watch((node.netns for node in lab.nodes.values() if node.netns is not None), queueing=queueing)

    def watch(self, namespaces: Iterable[int], *, queueing: bool = True) -> None:
        """Count from now on in `namespaces` (inode numbers), from zero.

        `queueing`: a device may refuse a packet and get it again (NETDEV_TX_BUSY). Looking
        out for that takes a third of what the programs cost.
        """
        self.stop()
        for _ in self._sizes.take():
            pass
        self._lost_before = self._lost_so_far()
        for netns in namespaces:
            _set_bit(self._watched, netns, True)
            self._namespaces.append(netns)
        # take_back first, transmit last: no moment at which a refused attempt stays counted.
        for program in ("take_back", "receive", "transmit") if queueing else ("receive", "transmit"):
            self._links.append(self._object.attach(program))

    def read(self) -> Sizes:
        return decode(dict(self._sizes.items()))

    def lost(self) -> int:
        return self._lost_so_far() - self._lost_before

    def rules(self) -> Mapping[str, str]:
        return {}

    def stop(self) -> None:
        while self._links:
            self._links.pop().close()
        while self._namespaces:
            _set_bit(self._watched, self._namespaces.pop(), False)

    def close(self) -> None:
        if self._links:
            self.stop()
        self._object.close()

    def _lost_so_far(self) -> int:
        full: int = sum(word for (word,) in _WORD.iter_unpack(self._lost.lookup(_ZERO)))
        return full + sum(self._object.missed(program) for program in PROGRAMS)


def decode(entries: dict[bytes, bytes]) -> Sizes:
    """Map entries (struct size_key, one count for each CPU) as packets by key."""
    sizes: Sizes = {}
    for key, counts in entries.items():
        netns, ifindex, size, gso_size, gso_segs, nr_frags, tx = KEY.unpack(key)
        packets = sum(struct.unpack(f"={len(counts) // 8}q", counts))
        if packets:  # an attempt that was taken back leaves 0
            sizes[SizeKey(netns, ifindex, bool(tx), size, gso_size, gso_segs, nr_frags)] = packets
    return sizes


def _set_bit(watched: Map, netns: int, value: bool) -> None:
    word, bit = divmod(netns - _FIRST_INODE, 64)
    if not 0 <= word < watched.max_entries:
        raise TestbedError(
            f"network namespace {netns}: its inode number is beyond what the BPF program can watch: "
            "this machine has too many namespaces"
        )
    index = _INDEX.pack(word)
    (bits,) = _WORD.unpack(watched.lookup(index))
    bits = bits | 1 << bit if value else bits & ~(1 << bit)
    watched.update(index, _WORD.pack(bits))
