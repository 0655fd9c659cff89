"""macvlan: a device with a MAC address of its own on top of another device of its node.

It takes the lower device's MTU and limits over when it is made; its MTU cannot
be above the lower device's. A macvlan and its lower device do not reach each other.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from testbed.devices.links.kind import Link, LinkKind, Probe
from testbed.devices.operations import CreateLink, Operation, Reference
from testbed.devices.settings import Settings


class MacvlanConfig(Settings):
    kind: Literal["macvlan"]
    dev: str = Field(description="the lower device, of the same node")
    mode: Literal["private", "vepa", "bridge", "passthru"] = "bridge"


def create(link: Link) -> list[Operation]:
    """The device; its settings come later, checked against the lower device's."""
    info = {"IFLA_MACVLAN_MODE": link.config.mode}
    return [CreateLink(link.node, link.name, "macvlan", info=info, link=Reference(link.config.dev))]


KIND = LinkKind(
    name="macvlan",
    config=MacvlanConfig,
    kernel_option="CONFIG_MACVLAN",
    create=create,
    lowers=lambda device: (device.dev,),
    usual_mtu=None,
    takes_over_receive=True,
    probe=Probe({"IFLA_MACVLAN_MODE": "bridge"}, above=True),
)
