"""Packet sizes by BPF, and by AF_PACKET on devices whose receive side BPF cannot see.

A VLAN, macvlan, ipvlan or bond takes packets over inside __netif_receive_skb_core
(net/core/dev.c, another_round): netif_receive_skb fires once, for the lower
device, while packet sockets see the packet again at the upper one.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.devices.links import KINDS
from testbed.evidence.af_packet import PacketSocketSizes
from testbed.evidence.bpf_sizes import BpfSizes
from testbed.evidence.sizes import Sizes
from testbed.lab.lab import Lab, LabDevice
from testbed.records.round import Source


class MixedSizes:
    """See sizes.SizeSource."""

    name: Source = "bpf"

    def __init__(self) -> None:
        """MissingCapability where BPF cannot run."""
        self._bpf = BpfSizes()
        self._socket = PacketSocketSizes()
        self._unseen: list[LabDevice] = []
        self._places: set[tuple[int | None, int]] = set()

    def start(self, lab: Lab) -> None:
        self._unseen = [device for device in lab.devices() if KINDS[device.kind].takes_over_receive]
        self._places = {(lab.nodes[device.node].netns, device.ifindex) for device in self._unseen}
        self._bpf.start(lab)
        if self._unseen:
            self._socket.start(lab, only=self._unseen)

    def read(self) -> Sizes:
        by_bpf = self._bpf.read()
        if not self._unseen:
            return by_bpf
        seen = {k: n for k, n in by_bpf.items() if k.tx or (k.netns, k.ifindex) not in self._places}
        return seen | {k: n for k, n in self._socket.read().items() if not k.tx}

    def lost(self) -> int:
        return self._bpf.lost() + self._socket.lost()

    def rules(self) -> Mapping[str, str]:
        return {f"{device.reference} rx": "seen by af_packet" for device in self._unseen}

    def stop(self) -> None:
        self._socket.stop()
        self._bpf.stop()

    def close(self) -> None:
        self._socket.close()
        self._bpf.close()
