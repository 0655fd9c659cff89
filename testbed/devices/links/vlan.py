"""vlan: the frames of one VLAN of the device under it. Its MTU cannot be above that device's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from testbed.devices.links.kind import Link, LinkKind, Probe, Tag
from testbed.devices.operations import CreateLink, Operation, Reference
from testbed.devices.settings import Settings

PROTOCOLS = {"802.1Q": 0x8100, "802.1ad": 0x88A8}


class VlanConfig(Settings):
    kind: Literal["vlan"]
    dev: str = Field(description="the lower device, of the same node")
    id: Annotated[int, Field(strict=True, ge=0, le=4094)]
    protocol: Literal["802.1Q", "802.1ad"] = "802.1Q"


def create(link: Link) -> list[Operation]:
    """The device; its settings come later, checked against the lower device's."""
    info = {"IFLA_VLAN_ID": link.config.id, "IFLA_VLAN_PROTOCOL": PROTOCOLS[link.config.protocol]}
    return [CreateLink(link.node, link.name, "vlan", info=info, link=Reference(link.config.dev))]


KIND = LinkKind(
    name="vlan",
    config=VlanConfig,
    kernel_option="CONFIG_VLAN_8021Q",
    create=create,
    lowers=lambda device: (device.dev,),
    tag=lambda device: Tag(device.protocol, device.id),
    usual_mtu=None,
    takes_over_receive=True,
    probe=Probe({"IFLA_VLAN_ID": 1}, above=True),
)
