"""veth: a pair of Ethernet devices, each the other's wire."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from testbed.devices.links.kind import EndField, Link, LinkKind, Probe
from testbed.devices.operations import CreateLink, Operation, Peer
from testbed.devices.settings import Settings

ETH_MAX_MTU = 65535


class VethConfig(Settings):
    """One end states the pair; the peer's own settings may stand at its node."""

    kind: Literal["veth"]
    peer: EndField = Field(description="the other end")


def create(link: Link) -> list[Operation]:
    """The pair, in its two nodes under its final names.

    Both ends get their MAC, MTU and limits in the same message, so that nothing
    (a udev rule, say) sees them half made. They come up later: IFF_UP for the
    peer in this message is answered with ENOTCONN.
    """
    assert link.peer is not None
    peer = Peer(link.peer.node, link.peer.device, _at_creation(link.peer_settings))
    return [CreateLink(link.node, link.name, "veth", _at_creation(link.config), peer=peer)]


def _at_creation(settings: Settings) -> dict[str, int | str]:
    """What the message that creates an end may hold.

    veth_validate (drivers/net/veth.c) refuses an MTU above 65535 there, even
    where the device takes it afterwards: its limit is not the device's max_mtu.
    """
    values = settings.link_values()
    return {name: value for name, value in values.items() if name != "mtu" or int(value) <= ETH_MAX_MTU}


KIND = LinkKind(
    name="veth",
    config=VethConfig,
    kernel_option="CONFIG_VETH",
    create=create,
    peer=lambda device: device.peer,
    merges=True,
    keeps_queue=True,
    probe=Probe(pair=True),
)
