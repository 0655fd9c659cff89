"""netkit: a pair like veth, with BPF programs in its transmit path, and without Ethernet in mode l3."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from testbed.devices.links.kind import EndField, Link, LinkKind, Probe
from testbed.devices.operations import CreateLink, Operation, Peer
from testbed.devices.settings import Settings

# enum netkit_mode in include/uapi/linux/if_link.h
MODES = {"l2": 0, "l3": 1}


class NetkitConfig(Settings):
    """One end states the pair, and is its primary device; the peer's own settings may stand at its node."""

    kind: Literal["netkit"]
    peer: EndField = Field(description="the other end")
    mode: Literal["l2", "l3"] = Field("l3", description="with or without Ethernet headers")


def create(link: Link) -> list[Operation]:
    """The pair, in its two nodes under its final names."""
    assert link.peer is not None
    peer = Peer(link.peer.node, link.peer.device, link.peer_settings.link_values())
    info = {"IFLA_NETKIT_MODE": MODES[link.config.mode]}
    return [CreateLink(link.node, link.name, "netkit", link.config.link_values(), info, peer=peer)]


KIND = LinkKind(
    name="netkit",
    config=NetkitConfig,
    kernel_option="CONFIG_NETKIT",
    create=create,
    peer=lambda device: device.peer,
    probe=Probe(pair=True),
)
