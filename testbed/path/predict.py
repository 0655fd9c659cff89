"""Predict, device by device, the largest TCP packet that crosses a path, and where it is cut. Pure.

The rules are the kernel's, each with its place; sizes are whole frames with their
Ethernet header, as evidence/ counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from testbed.devices.links.kind import End
from testbed.headers import (
    ETHERNET_HEADER,
    IP_HEADERS,
    JUMBO_OPTION,
    LARGEST_PAYLOAD,
    TCP_HEADER,
    TIMESTAMPS,
    VLAN_TAG,
)
from testbed.kernel_facts import FACTS
from testbed.path.route import Step

LEGACY_MAX_SIZE = 65536
# What a kernel may do that neither its release nor its configuration shows.
DECLARABLE = ("resegment",)
# A poll of a device's queue hands over 64 packets at most, and with HZ below
# 1000 GRO keeps nothing from one poll to the next (NAPI_POLL_WEIGHT, napi_poll).
POLL_PACKETS = 64
# What a device needs to take a TCP packet of either version uncut.
OFFLOADS = {4: "tx-tcp-segmentation", 6: "tx-tcp6-segmentation"}
# What a device needs to send a VLAN tag beside the frame, as metadata; without it the tag goes in.
TAG_OFFLOADS = {"802.1Q": "tx-vlan-hw-insert", "802.1ad": "tx-vlan-stag-hw-insert"}
SCATTER_GATHER = "tx-scatter-gather"
CHECKSUMS = ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6")

MSS_SEGMENTS, BOUNDED_GSO, LOST = "MSS segments", "bounded GSO", "lost"
# A tunnel's UDP header has 16 bits for the length of itself, the tunnel's header and the frame.
MAX_TUNNELLED_FRAME = 65535 - 16


@dataclass(frozen=True)
class Limits:
    """What one device holds. `merges`: what it receives goes through GRO; `pumped`: its wire is a program."""

    mtu: int
    gso: Mapping[int, int]  # IP version -> gso_max_size or gso_ipv4_max_size
    gro: Mapping[int, int]
    gso_max_segs: int
    features: frozenset[str]  # those that are on
    merges: bool
    pumped: bool = False


@dataclass(frozen=True)
class Traits:
    """What the kernel under test does that no setting shows."""

    max_tcp_header: int  # MAX_TCP_HEADER in include/net/tcp.h
    jumbo_option: bool  # these two: see testbed.kernel_facts
    big_tunnels: bool
    resegments: bool = False  # cuts a packet above a limit into GSO packets that fit (a series of 2026)


@dataclass(frozen=True)
class Hop:
    """What becomes of the largest packet at one device. Sizes in bytes, with the Ethernet header.

    A packet of whole segments: the end of a write may put one segment more, in part, into it.
    `cut` says into what it is cut here, `why` names the limit or offload at
    fault. Behind a cut, smaller packets still pass whole, up to `passes`.
    `merged`: by GRO, and then `largest` is what it cannot exceed.
    """

    end: End
    direction: Literal["rx", "tx"]
    largest: int
    segment: int  # the size of a frame with one MSS
    mss: int  # payload of a segment
    gso: bool
    cut: str | None = None
    why: str | None = None
    passes: int | None = None
    merged: bool = False

    @property
    def reference(self) -> str:
        return str(self.end)


@dataclass(frozen=True)
class _Position:
    """A step, and how many VLAN tags are inside the packet there, of all its frames."""

    step: Step
    tags_inside: int


@dataclass(frozen=True)
class _Packet:
    """TCP payload in one skb, of which `mss` bytes go into each segment."""

    version: int
    mss: int
    payload: int
    jumbo_option: bool
    tcp_header: int
    merged: bool = False

    @property
    def gso(self) -> bool:
        return self.payload > self.mss

    @property
    def jumbo(self) -> bool:
        """Whether its own IPv6 header is followed by a jumbo option."""
        too_long = self.payload + self.tcp_header > LARGEST_PAYLOAD
        return self.jumbo_option and self.version == 6 and too_long

    def headers(self, at: _Position) -> int:
        inner = ETHERNET_HEADER + IP_HEADERS[self.version] + self.tcp_header
        around = sum(tunnel.overhead for tunnel in at.step.tunnels) + VLAN_TAG * at.tags_inside
        return inner + around + (JUMBO_OPTION if self.jumbo else 0)

    def size(self, at: _Position) -> int:
        return self.payload + self.headers(at)

    def frame(self) -> int:
        """Its size without the tunnels around it."""
        return self.payload + ETHERNET_HEADER + IP_HEADERS[self.version] + self.tcp_header

    def of(self, segments: int, *, merged: bool = False) -> _Packet:
        """The same with this many segments."""
        return replace(self, payload=segments * self.mss, merged=merged)

    def within(self, room: int) -> int:
        """How many whole segments fit into `room` bytes, one at least."""
        return max(1, room // self.mss)

    def below(self, limit: int, at: _Position) -> int:
        """How many segments a packet there can have and be smaller than `limit`, one at least."""
        segments = self.within(limit - 1 - self.of(1).headers(at))
        return segments if self.of(segments).size(at) < limit else max(1, segments - 1)

    def at_most(self, segments: int) -> _Packet:
        return self if self.payload <= segments * self.mss else self.of(segments)


def predict(
    steps: Sequence[Step],
    limits: Mapping[End, Limits],
    version: int,
    traits: Traits,
    *,
    timestamps: bool = True,
) -> list[Hop]:
    """The largest packet of one TCP flow of IP `version` at each step, a hop for each."""
    if not steps:
        return []
    tcp_header = TCP_HEADER + (TIMESTAMPS if timestamps else 0)
    mss = path_mtu(steps, limits) - IP_HEADERS[version] - tcp_header
    source = limits[steps[0].end]
    # tcp_tso_autosize and sk_dst_gso_max_size: a whole number of segments, as
    # large as the sending device's limit allows, whatever its offloads.
    room = source.gso[version] - traits.max_tcp_header - 1
    whole = _Packet(version, mss, mss, traits.jumbo_option, tcp_header)
    largest = whole.of(min(whole.within(room), source.gso_max_segs))
    crossing = _Crossing(largest, largest)
    hops = []
    inside: Step | None = None
    own_tags = 0  # of the outermost frame, those inside it
    for step in steps:
        entered = inside is not None and len(step.tunnels) > len(inside.tunnels)
        came_out = inside is not None and len(step.tunnels) < len(inside.tunnels)
        own_tags = 0 if entered else len(step.tags) if came_out else min(own_tags, len(step.tags))
        here = limits[step.end]
        before = _Position(step, own_tags + step.inner_tags)
        if step.direction == "tx" and _inserts_tag(step, here):
            own_tags = len(step.tags)
        after = _Position(step, own_tags + step.inner_tags)
        crossing, hop = _cross(crossing, before, after, here, traits, came_out=came_out)
        hops.append(hop)
        inside = step
        if step.direction == "tx" and here.pumped:  # a program gets whole frames
            own_tags = len(step.tags)
        elif step.direction == "rx" and step.tags and own_tags == len(step.tags):
            own_tags -= 1  # skb_vlan_untag: the outermost becomes metadata once it is received
    return hops


def _inserts_tag(step: Step, limits: Limits) -> bool:
    """Whether a device puts the outermost tag into the frame (validate_xmit_vlan in net/core/dev.c)."""
    return bool(step.tags) and TAG_OFFLOADS[step.tags[0]] not in limits.features


def path_mtu(steps: Sequence[Step], limits: Mapping[End, Limits]) -> int:
    """The MTU that TCP ends up with: the least of every IP sender on the way and of the receiver.

    A tunnel's own IP packet must keep to the MTU of the device below it too.
    """
    mtus = [
        (step.mtu or limits[step.end].mtu) - sum(tunnel.overhead for tunnel in step.tunnels)
        for step in steps
        if step.routed
    ]
    return min(*mtus, limits[steps[-1].end].mtu)


def traits_of(
    release: str, config: str | None, declared: Iterable[str] = (), tunnel_limit: int | None = None
) -> Traits:
    """The traits of a kernel by its release and its configuration (text, None where unknown).

    What cannot be seen in either is declared: `resegment` for a kernel that cuts
    into bounded GSO packets. `tunnel_limit`: the tso_max_size of a vxlan without a lower
    device in bytes, as probing finds it, which says more than the release.
    """
    big = FACTS["big_tunnels"].holds(release) if tunnel_limit is None else tunnel_limit > LEGACY_MAX_SIZE
    return Traits(
        max_tcp_header=max_tcp_header(config),
        jumbo_option=FACTS["jumbo_option"].holds(release),
        big_tunnels=big,
        resegments="resegment" in set(declared),
    )


def max_tcp_header(config: str | None) -> int:
    """MAX_TCP_HEADER: 128 + MAX_HEADER (include/linux/netdevice.h), in whole cache lines of 64 bytes.

    Without a configuration, that of a distribution's kernel, which has everything.
    """

    def has(*options: str) -> bool:
        return config is None or any(
            f"CONFIG_{option}={value}" in config for option in options for value in "ym"
        )

    link = 128 if has("HYPERV_NET", "MAC80211_MESH") else 96 if has("WLAN", "AX25") else 32
    tunnels = 48 if has("NET_IPIP", "NET_IPGRE", "IPV6_SIT", "IPV6_TUNNEL") else 0
    return -(-(128 + link + tunnels) // 64) * 64


@dataclass(frozen=True)
class _Crossing:
    """What becomes of the largest packet that was sent, and the largest that has passed whole so far."""

    packet: _Packet
    whole: _Packet


def _cross(
    crossing: _Crossing,
    before: _Position,
    after: _Position,
    limits: Limits,
    traits: Traits,
    *,
    came_out: bool,
) -> tuple[_Crossing, Hop]:
    """The packet at the next step; `came_out` of a tunnel to get there.

    `before`: as its limits see it; `after`: as it is sent, when a tag may have gone in.
    """
    step = after.step
    packet, whole = crossing.packet, crossing.whole
    cut = why = None
    if packet.gso and not traits.big_tunnels:
        why = _lost_in_tunnel(packet, step, came_out=came_out)
    if why is not None:
        cut = LOST
        headers = packet.frame() - packet.payload
        packet = whole = whole.at_most(whole.within(MAX_TUNNELLED_FRAME - headers))
    if step.direction == "tx" and packet.gso:
        refused, fitting = _refused(packet, before, limits)
        if refused is not None:
            bounded = traits.resegments and not step.tunnels and fitting > 1
            cut, why = BOUNDED_GSO if bounded else MSS_SEGMENTS, refused
            packet = packet.of(fitting if bounded else 1)
            whole = whole.at_most(fitting)
    elif step.direction == "rx" and limits.merges and "rx-gro" in limits.features:
        packet = _merge(packet, after, limits)
    passes = whole.size(after) if whole.payload > packet.payload else None
    size, segment = packet.size(after), packet.of(1).size(after)
    hop = Hop(
        step.end, step.direction, size, segment, packet.mss, packet.gso, cut, why, passes, packet.merged
    )
    return _Crossing(packet, whole), hop


def _lost_in_tunnel(packet: _Packet, step: Step, *, came_out: bool) -> str | None:
    """Why a packet is lost that is too long for a tunnel's UDP header, None where it is not.

    Observed on 6.18: with a jumbo option inside it never reaches the device below
    the tunnel; without, the far end drops it, unless it has been cut before.
    """
    if packet.frame() <= MAX_TUNNELLED_FRAME:
        return None
    if step.direction == "tx" and step.tunnels and packet.jumbo:
        return "IPv6 BIG TCP in a tunnel"
    return "BIG TCP in a tunnel" if came_out else None


def _refused(packet: _Packet, at: _Position, limits: Limits) -> tuple[str | None, int]:
    """Why a device does not take a GSO packet as it is, and how many of its segments it would take.

    netif_skb_features and gso_features_check in net/core/dev.c. The size limit is
    the one for the outermost header's version; the offload is for what is inside.
    """
    step = at.step
    for tunnel in step.tunnels:
        if tunnel.feature not in limits.features:
            return f"{tunnel.feature} off", 1
    if OFFLOADS[packet.version] not in limits.features:
        return f"{OFFLOADS[packet.version]} off", 1
    if SCATTER_GATHER not in limits.features or not limits.features.intersection(CHECKSUMS):
        return f"{SCATTER_GATHER} or checksum offload off", 1
    limit = limits.gso[step.version]
    fitting = min(packet.below(limit, at), limits.gso_max_segs)
    if packet.size(at) >= limit:
        name = "gso_max_size" if step.version == 6 else "gso_ipv4_max_size"
        return f"{name} {limit}", fitting
    if packet.payload > limits.gso_max_segs * packet.mss:
        return f"gso_max_segs {limits.gso_max_segs}", fitting
    return None, fitting


def _merge(packet: _Packet, at: _Position, limits: Limits) -> _Packet:
    """What GRO can make of it (skb_gro_receive in net/core/gro.c), where that is more than it is already."""
    headers = packet.of(1).headers(at) - ETHERNET_HEADER  # a jumbo option comes after merging
    fitting = packet.within(limits.gro[at.step.version] - 1 - headers)
    if not packet.gso:
        fitting = min(fitting, POLL_PACKETS)
    merged = packet.of(fitting, merged=True)
    return merged if merged.payload > packet.payload else packet
