"""Packet sizes by BPF: what bpf/packet_sizes.bpf.c counted, read from its maps."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from testbed.errors import TestbedError
from testbed.evidence.compile import OBJECT
from testbed.evidence.libbpf import Link, Map, Object
from testbed.evidence.sizes import SizeKey, Sizes
from testbed.records.round import Source

if TYPE_CHECKING:
    from testbed.lab.lab import Lab

PROGRAMS = ("receive", "transmit", "take_back")
KEY = struct.Struct("=QQQ")  # struct size_key
PLACE = struct.Struct("=qQQQ")  # struct place
_INDEX = struct.Struct("=I")
_WORD = struct.Struct("=Q")
_FIRST_INODE = 0xEFFFFFC0  # FIRST_INODE in the C program
_ZERO = _INDEX.pack(0)


class BpfSizes:
    """Loaded once for a run, attached for each round. See sizes.SizeSource."""

    name: Source = "bpf"

    def __init__(self) -> None:
        """Load the program. MissingCapability where this kernel or user cannot."""
        self._object = Object(OBJECT)
        self._sets = self._object.map("sets")
        self._overflow = self._object.map("overflow")
        self._watched = self._object.map("watched")
        self._lost = self._object.map("lost")
        self._links: list[Link] = []
        self._namespaces: list[int] = []
        self._lost_before = 0

    def start(self, lab: Lab) -> None:
        # Only a packet that waits in a queue is offered again; without one it is dropped, and counted so.
        queueing = any(actual["qdisc"] != "noqueue" for actual in lab.read_back().values())
        self.watch((node.netns for node in lab.nodes.values() if node.netns is not None), queueing=queueing)

    def watch(self, namespaces: Iterable[int], *, queueing: bool = True) -> None:
        """Count from now on in `namespaces` (inode numbers), from zero.

        `queueing`: a device may refuse a packet and get it again (NETDEV_TX_BUSY). Looking
        out for that takes a third of what the programs cost.
        """
        self.stop()
        self._forget()
        self._lost_before = self._lost_so_far()
        for netns in namespaces:
            _set_bit(self._watched, netns, True)
            self._namespaces.append(netns)
        # take_back first, transmit last: no moment at which a refused attempt stays counted.
        for program in ("take_back", "receive", "transmit") if queueing else ("receive", "transmit"):
            self._links.append(self._object.attach(program))

    def read(self) -> Sizes:
        return decode([*in_places(self._sets.items()), *in_hash(self._overflow.items())])

    def lost(self) -> int:
        return self._lost_so_far() - self._lost_before

    def run_times(self) -> dict[str, tuple[int, int]]:
        """Of each program the nanoseconds and calls so far that fell under libbpf.run_statistics()."""
        return {program: self._object.run_time(program) for program in PROGRAMS}

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

    def _forget(self) -> None:
        for _ in self._overflow.take():
            pass
        for index, places in self._sets.items():
            if places.strip(b"\0"):
                self._sets.update(index, bytes(len(places)))

    def _lost_so_far(self) -> int:
        full: int = sum(word for (word,) in _WORD.iter_unpack(self._lost.lookup(_ZERO)))
        return full + sum(self._object.missed(program) for program in PROGRAMS)


Entry = tuple[bytes, int]  # struct size_key, packets


def in_places(sets: Iterable[tuple[bytes, bytes]]) -> Iterator[Entry]:
    """The counts in the map `sets`: in each value the places of all CPUs one after another."""
    for _, places in sets:
        if places.strip(b"\0"):
            for packets, *key in PLACE.iter_unpack(places):
                yield KEY.pack(*key), packets


def in_hash(entries: Iterable[tuple[bytes, bytes]]) -> Iterator[Entry]:
    """The counts in the map `overflow`: in each value one for each CPU."""
    for key, counts in entries:
        yield key, sum(struct.unpack(f"={len(counts) // 8}q", counts))


def decode(entries: Iterable[Entry]) -> Sizes:
    """Packets by key, from the counts of all CPUs and both maps."""
    packets: Counter[bytes] = Counter()
    for key, count in entries:
        packets[key] += count
    # An attempt that was taken back leaves 0.
    return {unpack_key(key): count for key, count in packets.items() if count}


def unpack_key(key: bytes) -> SizeKey:
    """A struct size_key."""
    device, size, rest = KEY.unpack(key)
    return SizeKey(
        netns=device & 0xFFFFFFFF,
        ifindex=device >> 32,
        tx=bool(rest >> 8),
        size=size & 0xFFFFFFFF,
        gso_size=size >> 32 & 0xFFFF,
        gso_segs=size >> 48,
        nr_frags=rest & 0xFF,
    )


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
