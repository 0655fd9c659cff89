"""physical: a NIC of this machine, moved into a node and given back when the lab ends.

It keeps its name, so that a lab killed at any point gives it back too: the
kernel moves a NIC whose namespace is gone to the machine's first namespace,
under the name it has, or under another where that is taken.
"""

from __future__ import annotations

from typing import Literal

from testbed.devices.links.kind import Link, LinkKind
from testbed.devices.operations import Operation, TakeDevice
from testbed.devices.settings import Settings


class PhysicalConfig(Settings):
    """The device's name is the NIC's own. Its cable, if it has one, is outside the topology."""

    kind: Literal["physical"]


def create(link: Link) -> list[Operation]:
    return [TakeDevice(link.node, link.name)]


KIND = LinkKind(
    name="physical",
    config=PhysicalConfig,
    kernel_option="",
    create=create,
    carrier=lambda _: False,
    usual_mtu=None,
    merges=True,
)
