"""Kernel stacks of the packets above a size: where large packets come from, and where they go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from testbed.evidence.collect import parse_condition
from testbed.evidence.perf import Perf, Sample, samples
from testbed.headers import ETHERNET_HEADER
from testbed.lab.lab import Lab
from testbed.records.round import Direction, Stack

_MOST = 5  # stacks kept for each device and direction
_MOST_RECORDED = "8M"
# A stack costs a packet several microseconds, and reading it back a hundred: one packet in ten.
# Where a sample holds its period, the kernel takes every packet (perf_swevent_event()).
_ONE_IN = ["-c", "10", "--no-period"]
_PACKET = re.compile(r"net:(\w+):.*\bdev=(\S+).*\blen=(\d+)")
_DIRECTIONS: dict[str, Direction] = {"netif_receive_skb": "rx", "net_dev_start_xmit": "tx"}


class PacketStacks:
    """Collector: `stacks`, over the whole flow.

    perf knows devices by their names only: a device of the same name elsewhere
    on this machine, with packets of such a size, would be taken for the lab's.
    """

    name = "stacks"

    def __init__(self, condition: str) -> None:
        """`condition`: as `size > 65536`, Ethernet header included. MissingCapability without perf."""
        operator, size = parse_condition(condition)
        received = f"len {operator} {max(0, size - ETHERNET_HEADER)}"
        options = ["-g", *_ONE_IN, "--max-size", _MOST_RECORDED]
        options += ["-e", "net:netif_receive_skb", "--filter", received]
        options += ["-e", "net:net_dev_start_xmit", "--filter", f"len {operator} {size}"]
        self._perf = Perf(options)
        self._devices: set[str] = set()

    def start(self, lab: Lab) -> None:
        self._devices = {device.name for device in lab.devices()}
        self._perf.start(lab)

    def measuring(self) -> None:
        pass

    def stop(self) -> Mapping[str, Any]:
        return {"stacks": collect(samples(self._perf.stop("event,trace,ip,sym")), self._devices)}

    def close(self) -> None:
        self._perf.close()


def collect(found: Iterable[Sample], devices: Iterable[str]) -> list[Stack]:
    """The most frequent stacks of each device and direction."""
    known = set(devices)
    packets: dict[tuple[str, Direction, tuple[str, ...]], list[int]] = {}
    for sample in found:
        match = _PACKET.search(sample.header)
        if match and match[2] in known and match[1] in _DIRECTIONS:
            direction = _DIRECTIONS[match[1]]
            size = int(match[3]) + (ETHERNET_HEADER if direction == "rx" else 0)
            packets.setdefault((match[2], direction, sample.frames), []).append(size)
    stacks: dict[tuple[str, str], list[Stack]] = {}
    for (device, direction, frames), sizes in sorted(packets.items(), key=lambda item: -len(item[1])):
        stack = Stack(
            device=device,
            direction=direction,
            samples=len(sizes),
            largest=max(sizes),
            frames=list(frames),
        )
        stacks.setdefault((device, direction), []).append(stack)
    return [stack for _, listed in sorted(stacks.items()) for stack in listed[:_MOST]]
