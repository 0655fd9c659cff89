"""geneve: Ethernet frames in UDP packets, point to point, by the route to the far end."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from testbed.devices.links.kind import Link, LinkKind, Probe, Tunnel
from testbed.devices.links.tunnel import (
    Address,
    Port,
    TunnelSettings,
    Vni,
    attribute_values,
    outer_checksum,
    over,
)
from testbed.devices.operations import CreateLink, Operation

ATTRIBUTES = {
    "id": "IFLA_GENEVE_ID",
    "dstport": "IFLA_GENEVE_PORT",
    "ttl": "IFLA_GENEVE_TTL",
    "udpcsum": "IFLA_GENEVE_UDP_CSUM",
    "udp6zerocsumtx": "IFLA_GENEVE_UDP_ZERO_CSUM6_TX",
    "udp6zerocsumrx": "IFLA_GENEVE_UDP_ZERO_CSUM6_RX",
}


class GeneveConfig(TunnelSettings):
    kind: Literal["geneve"]
    id: Vni = Field(description="the network's identifier (VNI)")
    remote: Address = Field(description="destination of the outer packet")
    dstport: Port = Field(6081, description="UDP port")


def create(link: Link) -> list[Operation]:
    """The device. Its MTU is set later, so that a refusal names it."""
    device: GeneveConfig = link.config
    info = attribute_values(ATTRIBUTES, device)
    info["IFLA_GENEVE_REMOTE" + ("6" if device.remote.version == 6 else "")] = str(device.remote)
    return [CreateLink(link.node, link.name, "geneve", info=info)]


def tunnel(device: GeneveConfig) -> Tunnel:
    version = device.remote.version
    network = ("geneve", device.id, device.dstport)
    return over(network, (device.remote,), version, checksum=outer_checksum(device, version))


KIND = LinkKind(
    name="geneve",
    config=GeneveConfig,
    kernel_option="CONFIG_GENEVE",
    create=create,
    tunnel=tunnel,
    usual_mtu=None,
    merges=True,
    probe=Probe({"IFLA_GENEVE_ID": 1, "IFLA_GENEVE_REMOTE": "192.0.2.1"}),
)
