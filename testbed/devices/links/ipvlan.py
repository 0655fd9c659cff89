"""ipvlan: a device with addresses of its own, and the MAC address of the device under it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from testbed.devices.links.kind import Link, LinkKind, Probe
from testbed.devices.operations import CreateLink, Operation, Reference
from testbed.devices.settings import Settings

# enum ipvlan_mode and IPVLAN_F_* in include/uapi/linux/if_link.h
MODES = {"l2": 0, "l3": 1, "l3s": 2}
FLAGS = {"bridge": 0, "private": 1, "vepa": 2}


class IpvlanConfig(Settings):
    kind: Literal["ipvlan"]
    dev: str = Field(description="the lower device, of the same node")
    mode: Literal["l2", "l3", "l3s"] = "l2"
    flag: Literal["bridge", "private", "vepa"] = "bridge"


def create(link: Link) -> list[Operation]:
    """The device; its settings come later, checked against the lower device's."""
    info = {"IFLA_IPVLAN_MODE": MODES[link.config.mode], "IFLA_IPVLAN_FLAGS": FLAGS[link.config.flag]}
    return [CreateLink(link.node, link.name, "ipvlan", info=info, link=Reference(link.config.dev))]


KIND = LinkKind(
    name="ipvlan",
    config=IpvlanConfig,
    kernel_option="CONFIG_IPVLAN",
    create=create,
    lowers=lambda device: (device.dev,),
    usual_mtu=None,
    takes_over_receive=True,
    probe=Probe(above=True),
)
