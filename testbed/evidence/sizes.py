"""Packets by size: the value that every source of packet sizes gives, and what a source is."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol


class SizeKey(NamedTuple):
    """What packets are told apart by. `size` in bytes with the link-layer header; gso_* as in the skb."""

    netns: int
    ifindex: int
    tx: bool
    size: int
    gso_size: int
    gso_segs: int
    nr_frags: int | None


Sizes = dict[SizeKey, int]


class SizeSource(Protocol):
    """Counts packets of network namespaces on this kernel."""

    name: str

    def start(self, namespaces: Collection[int]) -> None:
        """Count from now on in `namespaces` (inode numbers), from zero."""
        ...

    def read(self) -> Sizes:
        """Packets since `start`. From any thread, while packets go on."""
        ...

    def lost(self) -> int:
        """Packets since `start` that are not in `read`."""
        ...

    def stop(self) -> None:
        """Stop counting; idempotent. What was counted stays readable until the next `start`."""
        ...

    def close(self) -> None:
        """Give back what it holds; idempotent."""
        ...
