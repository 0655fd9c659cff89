"""Packet sizes by AF_PACKET, where BPF cannot run: a short copy of each packet in a ring, counted here.

Every packet costs this process about a microsecond and a copy of its headers,
so it disturbs a flow more than BPF does. It sees the size, gso_size and (worked
out from the headers) gso_segs; nr_frags it cannot see. A packet that a driver
refuses for the moment (NETDEV_TX_BUSY) shows once for each attempt.
"""

from __future__ import annotations

import errno
import mmap
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress

from testbed.errors import MissingCapability, TestbedError
from testbed.evidence.sizes import SizeKey, Sizes
from testbed.headers import UDP_HEADER
from testbed.lab.lab import Lab, LabDevice
from testbed.records.round import Source

# linux/if_packet.h, linux/virtio_net.h
_ETH_P_ALL = 3
_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _VNET_HDR = 263, 5, 6, 10, 15
_TPACKET_V2 = 1
_PACKET_OUTGOING = 4
_STATUS_USER = 1
_TO_KERNEL = bytes(4)  # the status TP_STATUS_KERNEL
_FRAME = struct.Struct("=IIIHH")  # struct tpacket2_hdr: status, len, snaplen, mac, net
_LINK = struct.Struct("=4xiHB")  # struct sockaddr_ll: ifindex, hatype, pkttype
_LINK_AT = 32
_VNET = struct.Struct("=BBHHHH")  # struct virtio_net_hdr: flags, gso_type, hdr_len, gso_size, csum_start, ...
_GSO_UDP_L4 = 5
_GSO_ECN = 0x80

_FRAME_BYTES = 256  # headers of the deepest tunnel in question fit
_BLOCK_BYTES = 1 << 16
_RING_BYTES = 8 << 20  # 32768 packets: a quarter of a second at 125000 a second
_ALL_RINGS_BYTES = 256 << 20
_INTERVAL_S = 0.005

# What is counted while packets arrive; gso_segs is worked out when somebody reads.
_Seen = tuple[int, int, int, int, int]  # ifindex, pkttype, size, gso_size, bytes of headers


class PacketSocketSizes:
    """Counts in a thread of this process. See sizes.SizeSource."""

    name: Source = "af_packet"

    def __init__(self) -> None:
        """MissingCapability where this user or kernel cannot open a packet socket."""
        self._rings: list[_Ring] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lost = 0
        _packet_socket(0).close()

    def start(self, lab: Lab, only: Collection[LabDevice] | None = None) -> None:
        """See sizes.SizeSource. `only`: see these devices, not all of the lab's."""
        self.close()
        self._lost = 0
        places = [(device.node, device.name) for device in only] if only else [(n, "") for n in lab.nodes]
        local = [(lab.nodes[node], name) for node, name in places if lab.nodes[node].netns is not None]
        size = min(_RING_BYTES, _ALL_RINGS_BYTES // max(1, len(local)) // _BLOCK_BYTES * _BLOCK_BYTES)
        self._rings = [
            _Ring(node.netns or 0, node.call(_packet_socket, device=name), size) for node, name in local
        ]
        self._stopping.clear()
        self._thread = threading.Thread(target=self._drain_until_stopped, name="af_packet", daemon=True)
        self._thread.start()

    def read(self) -> Sizes:
        self._drain()
        sizes: Sizes = {}
        for ring in self._rings:
            for seen, packets in ring.seen.copy().items():
                key = _key(ring.netns, seen)
                sizes[key] = sizes.get(key, 0) + packets
        return sizes

    def lost(self) -> int:
        self._lost += sum(ring.drops() for ring in self._rings if not ring.closed)
        return self._lost

    def rules(self) -> Mapping[str, str]:
        return {}

    def stop(self) -> None:
        if self._thread:
            self._stopping.set()
            self._thread.join()
            self._thread = None
            self._drain()
            self.lost()
        for ring in self._rings:
            ring.close()

    def close(self) -> None:
        self.stop()
        self._rings = []

    def _drain_until_stopped(self) -> None:
        # Before a flow that takes every core, or the ring runs over.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
        while not self._stopping.wait(_INTERVAL_S):
            self._drain()

    def _drain(self) -> None:
        with self._lock:
            for ring in self._rings:
                ring.drain()


class _Ring:
    """A packet socket of one namespace with its ring, and what came through it."""

    def __init__(self, netns: int, packets: socket.socket, size: int) -> None:
        self.netns = netns
        self.seen: Counter[_Seen] = Counter()
        self.closed = False
        self._socket = packets
        self._frames = size // _FRAME_BYTES
        self._next = 0
        packets.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V2)
        packets.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
        shape = struct.pack("=IIII", _BLOCK_BYTES, size // _BLOCK_BYTES, _FRAME_BYTES, self._frames)
        packets.setsockopt(_SOL_PACKET, _RX_RING, shape)
        self._ring = mmap.mmap(packets.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.drops()  # what came before there was a ring does not count

    def drain(self) -> None:
        """Count what is in the ring, and give its frames back to the kernel."""
        if self.closed:
            return
        ring, seen = self._ring, self.seen
        for _ in range(self._frames):
            at = self._next * _FRAME_BYTES
            status, size, _, start, _ = _FRAME.unpack_from(ring, at)
            if not status & _STATUS_USER:
                break
            ifindex, _, pkttype = _LINK.unpack_from(ring, at + _LINK_AT)
            _, kind, _, gso_size, csum_start, _ = _VNET.unpack_from(ring, at + start - _VNET.size)
            headers = 0
            if gso_size:
                transport = at + start + csum_start
                headers = csum_start + _transport_header(
                    kind, ring[min(transport + 12, at + _FRAME_BYTES - 1)]
                )
            seen[ifindex, pkttype, size, gso_size, headers] += 1
            ring[at : at + 4] = _TO_KERNEL
            self._next = (self._next + 1) % self._frames

    def drops(self) -> int:
        """Packets that found the ring full since the last call."""
        statistics = self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8)
        return int(struct.unpack("=II", statistics)[1])

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._ring.close()
            self._socket.close()


def _transport_header(kind: int, data_offset: int) -> int:
    """Bytes of the TCP or UDP header of a GSO packet."""
    return UDP_HEADER if kind & ~_GSO_ECN == _GSO_UDP_L4 else (data_offset >> 4) * 4


def _key(netns: int, seen: _Seen) -> SizeKey:
    ifindex, pkttype, size, gso_size, headers = seen
    gso_segs = -(-(size - headers) // gso_size) if gso_size else 0
    return SizeKey(netns, ifindex, pkttype == _PACKET_OUTGOING, size, gso_size, gso_segs, None)


def _packet_socket(protocol: int = _ETH_P_ALL, device: str = "") -> socket.socket:
    """A packet socket that sees `device`, or every device, of the calling thread's namespace."""
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    try:
        packets = socket.socket(socket.AF_PACKET, kind, 0 if device else socket.htons(protocol))
        if device:
            packets.bind((device, protocol))
        return packets
    except OSError as error:
        if error.errno == errno.EPERM:
            raise MissingCapability("packet sizes by af_packet need root (or CAP_NET_RAW)") from None
        if error.errno == errno.EAFNOSUPPORT:
            raise MissingCapability("this kernel has no packet sockets (CONFIG_PACKET)") from None
        raise TestbedError(f"cannot open a packet socket: {os.strerror(error.errno or 0)}") from None
