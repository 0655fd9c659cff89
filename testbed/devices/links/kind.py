"""The interface of a link kind. One file in links/ per kind, and one line in links/__init__.py.

A kind is a value, `LinkKind`, made of

- `config`: a pydantic model derived from `Settings` (what every device has), with
  `kind: Literal["..."]` and the keys that only this kind has. What is wrong in a
  single device is said by its validators.
- `create(link)`: the operations that make the device, under its final name, in
  its node. Pure: it returns `CreateLink` (a netlink message) or `Call` (a
  function run inside the node, for what netlink cannot make). Settings that the
  operation carries in `values` are not set again; the planner sets the others
  afterwards, then brings the device up, in the order of topology/plan.py.
- `peer(device)`: the end that the link makes in addition, for kinds made in pairs.
- `lowers(device)`: devices of the same node that must exist before this one and
  carry it (vxlan's underlay, a VLAN's parent). They come up before it.
- `ports(device)`: devices of the same node that are enslaved to it (a bridge's
  ports). The planner enslaves them before it sets the limits of either, because
  an upper device takes limits over from its ports.
- `carrier(device)`: whether the link gets its carrier by itself once its ends are
  up; `open_lab` waits for it. False for a TAP that nobody has opened.
- `tunnel(device)`: what it puts around a frame before its node sends that on, for
  kinds that encapsulate.
- `tag(device)`: what marks its frames on the device under it, the same at both
  ends (a VLAN's protocol and number); None for kinds that send them unmarked.
- `usual_mtu`: the MTU that a new device has, None where that depends on others.
- `merges`: whether what it receives goes through GRO when its rx-gro is on.
- `keeps_queue`: whether what its peer receives bears the number of the transmit queue.
- `pumped`: whether its peer is reached by a pump, which the peer's node must offer.
- `takes_over_receive`: whether it takes packets over inside __netif_receive_skb_core (net/core/dev.c,
  another_round), so that netif_receive_skb fires for the device under it only.
- `probe`: the smallest device of the kind, by which is found whether a kernel makes it and with what
  limits; None for what cannot be made.
- `kernel_option`: what to turn on in a kernel that answers "unknown link type".

Nothing outside links/ may know a kind by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from testbed.devices.operations import Operation
from testbed.devices.settings import Settings
from testbed.headers import ETHERNET_HEADER

IPAddress = IPv4Address | IPv6Address


class End(NamedTuple):
    """A device in a node, written `node:device`."""

    node: str
    device: str

    def __str__(self) -> str:
        return f"{self.node}:{self.device}"


def _end(value: Any) -> End:
    if isinstance(value, End):
        return value
    match = re.fullmatch(r"([^:]+):([^:]+)", str(value))
    if not match:
        raise ValueError(f"'{value}' does not name an end as NODE:DEVICE")
    return End(*match.groups())


EndField = Annotated[
    End,
    BeforeValidator(_end),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": "^[^:]+:[^:]+$", "description": "NODE:DEVICE"}),
]


class Device(Settings):
    """A device as its node states it. Without `kind` it is the other end of a link stated elsewhere."""

    kind: None = Field(None, description="the link's kind, at the end that states the link")


@dataclass(frozen=True)
class Link:
    """A link to be made: where it is stated, and the settings of both ends."""

    node: str
    name: str
    config: Any  # an instance of the kind's own model; Any because a list of kinds holds many
    peer: End | None = None
    peer_settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Tunnel:
    """What an encapsulating device does to a frame: where the packet goes, and what it grows by."""

    network: tuple[str | int, ...]  # kind, identifier and port: equal at both ends
    remotes: tuple[IPAddress, ...]
    outer_bytes: int  # the headers around the frame, without the Ethernet header of the outer packet
    feature: str  # a device that has it segments such packets itself, any other gets segments

    @property
    def overhead(self) -> int:
        """Bytes by which its MTU is below that of the device under it: an Ethernet header goes inside."""
        return self.outer_bytes + ETHERNET_HEADER


class Tag(NamedTuple):
    """The tag of a VLAN's frames."""

    protocol: Literal["802.1Q", "802.1ad"]
    id: int


@dataclass(frozen=True)
class Probe:
    """How the smallest device of a kind is made.

    info: what netlink cannot make it without. pair: it comes with a peer. above: on top of another device.
    make: makes it under this name instead, in the calling thread's namespace.
    """

    info: Mapping[str, Any] = field(default_factory=dict)
    pair: bool = False
    above: bool = False
    make: Callable[[str], object] | None = None


def _no_peer(_: Any) -> End | None:
    return None


def _no_tunnel(_: Any) -> Tunnel | None:
    return None


def _untagged(_: Any) -> None:
    return None


def _always(_: Any) -> bool:
    return True


def _none(_: Any) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class LinkKind:
    """The functions and facts of one link kind; see the module's docstring."""

    name: str
    config: type[Settings]
    kernel_option: str
    create: Callable[[Link], list[Operation]]
    peer: Callable[[Any], End | None] = _no_peer
    lowers: Callable[[Any], tuple[str, ...]] = _none
    ports: Callable[[Any], tuple[str, ...]] = _none
    carrier: Callable[[Any], bool] = _always
    tunnel: Callable[[Any], Tunnel | None] = _no_tunnel
    tag: Callable[[Any], Tag | None] = _untagged
    usual_mtu: int | None = 1500
    merges: bool = False
    keeps_queue: bool = False
    pumped: bool = False
    takes_over_receive: bool = False
    probe: Probe | None = None
