"""bridge: an Ethernet switch; its ports are devices of the same node, of any kind.

Its MTU follows its lowest port until it is set; its tso_max_size follows its
ports and is 65536 without any (br_set_gso_limits in net/bridge/br_if.c). Its
own gso_max_size limits only what its node sends, not what it forwards.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from testbed.devices.links.kind import Link, LinkKind, Probe
from testbed.devices.operations import CreateLink, Operation
from testbed.devices.settings import Settings

MAX_PORTS = 1024  # BR_MAX_PORTS in net/bridge/br_private.h


class BridgeConfig(Settings):
    kind: Literal["bridge"]
    ports: tuple[str, ...] = Field((), description="devices of the same node")

    @field_validator("ports")
    @classmethod
    def _each_once(cls, ports: tuple[str, ...]) -> tuple[str, ...]:
        if len(ports) > MAX_PORTS:
            raise ValueError(f"{len(ports)} ports, and a bridge has at most {MAX_PORTS}")
        seen: set[str] = set()
        for port in ports:
            if port in seen:
                raise ValueError(f"port '{port}' stands twice")
            seen.add(port)
        return ports


def create(link: Link) -> list[Operation]:
    """The bridge alone: it gets its ports and then its limits from the planner."""
    return [CreateLink(link.node, link.name, "bridge")]


KIND = LinkKind(
    name="bridge",
    config=BridgeConfig,
    kernel_option="CONFIG_BRIDGE",
    create=create,
    ports=lambda device: device.ports,
    carrier=lambda device: bool(device.ports),
    usual_mtu=None,
    probe=Probe(),
)
