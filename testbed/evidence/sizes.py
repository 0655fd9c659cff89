"""Packet counts by size: the common key, and the interface of their sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from testbed.records.round import Source

if TYPE_CHECKING:
    from testbed.lab.lab import Lab


class SizeKey(NamedTuple):
    """The key by which packets are counted. `size` in bytes with the link-layer header; gso_* as in the skb.

    gso_segs is 0 where gso_size is: TCP keeps a 1 there, other protocols a 0, and neither means anything.
    """

    netns: int
    ifindex: int
    tx: bool
    size: int
    gso_size: int
    gso_segs: int
    nr_frags: int | None


Sizes = dict[SizeKey, int]


class SizeSource(Protocol):
    """Counts the packets of nodes whose network stack is this kernel's."""

    name: Source

    def start(self, lab: Lab) -> None:
        """Count from now on in the lab's nodes that are on this kernel, from zero."""
        ...

    def read(self) -> Sizes:
        """Packets since `start`. From any thread, while packets go on."""
        ...

    def lost(self) -> int:
        """Packets since `start` that are not in `read`."""
        ...

    def rules(self) -> Mapping[str, str]:
        """`node:device direction` -> how it is counted, where otherwise than by `name`."""
        ...

    def stop(self) -> None:
        """Stop counting; idempotent. What was counted stays readable until the next `start`."""
        ...

    def close(self) -> None:
        """Release its resources; idempotent."""
        ...
