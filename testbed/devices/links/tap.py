"""tap: an Ethernet device whose wire is a program: QEMU, or with `to` a pump into a second TAP.

A GSO packet goes through a pump whole, as it goes through vhost into a guest.
tso_max_size is 65536: what is larger is cut before it gets here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from testbed.devices.links.kind import EndField, Link, LinkKind, Probe
from testbed.devices.operations import Call, Operation, Pump
from testbed.devices.settings import Settings
from testbed.devices.tun import make_tap


class TapConfig(Settings):
    kind: Literal["tap"]
    to: EndField | None = Field(
        None, description="the TAP at the far end of a pump; its node says `pump: {}`"
    )


def create(link: Link) -> list[Operation]:
    """The TAP, and with `to` the other one and the pump between them.

    The pump opens both before anything else is set: opening sets the offloads,
    over whatever was asked for before.
    """
    made: list[Operation] = [_tap(link.node, link.name)]
    if link.peer is not None:
        made.append(_tap(link.peer.node, link.peer.device))
        made.append(Pump(link.node, link.name, link.peer.node, link.peer.device))
    return made


def _tap(node: str, name: str) -> Call:
    return Call(node, name, make_tap, (name,), f"tuntap add {name} mode tap vnet_hdr")


KIND = LinkKind(
    name="tap",
    config=TapConfig,
    kernel_option="CONFIG_TUN",
    create=create,
    peer=lambda device: device.to,
    carrier=lambda device: device.to is not None,
    pumped=True,
    probe=Probe(make=make_tap),
)
