"""vxlan: Ethernet frames in UDP packets, point to point, or to many by forwarding entries.

With a lower device (`dev`) it takes that device's tso_max_size over when it is
made, and its MTU is held below that device's. Without one its tso_max_size is
65536 or GSO_MAX_SIZE (kernel_facts: big_tunnels), and its MTU is 1500 until it is
set, which is more than an underlay of 1500 carries.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.devices.links.kind import IPAddress, Link, LinkKind, Probe, Tunnel
from testbed.devices.links.tunnel import (
    Address,
    Port,
    TunnelSettings,
    Vni,
    attribute_values,
    outer_checksum,
    over,
)
from testbed.devices.operations import AddForwarding, CreateLink, Operation, Reference
from testbed.devices.settings import Mac
from testbed.yamlfile import mistake

ATTRIBUTES = {
    "id": "IFLA_VXLAN_ID",
    "dstport": "IFLA_VXLAN_PORT",
    "learning": "IFLA_VXLAN_LEARNING",
    "ttl": "IFLA_VXLAN_TTL",
    "udpcsum": "IFLA_VXLAN_UDP_CSUM",
    "udp6zerocsumtx": "IFLA_VXLAN_UDP_ZERO_CSUM6_TX",
    "udp6zerocsumrx": "IFLA_VXLAN_UDP_ZERO_CSUM6_RX",
}
# Where a frame goes whose destination no other entry has.
ANY_MAC = "00:00:00:00:00:00"


class Forwarding(BaseModel):
    """A static forwarding entry, as `bridge fdb append MAC dev VXLAN dst ADDRESS` makes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mac: Mac = Field(ANY_MAC, description="the frame's destination; by default what no other entry has")
    dst: Address = Field(description="the far end's underlay address")


class VxlanConfig(TunnelSettings):
    kind: Literal["vxlan"]
    id: Vni = Field(description="the network's identifier (VNI)")
    dev: str | None = Field(None, description="the lower device, of the same node")
    local: Address | None = Field(None, description="source address of the outer packet")
    remote: Address | None = Field(None, description="destination of the outer packet, unicast or multicast")
    dstport: Port = Field(4789, description="UDP port")
    learning: bool | None = Field(None, description="learn the far end of a MAC address from its frames")
    fdb: tuple[Forwarding, ...] = Field((), description="static forwarding entries")

    @model_validator(mode="after")
    def _one_underlay(self) -> Self:
        versions = {address.version for address in self.addresses_below()}
        if len(versions) > 1:
            raise mistake("local, remote and fdb mix IPv4 and IPv6: an underlay is one or the other")
        if self.remote is not None and self.remote.is_multicast and self.dev is None:
            raise mistake(f"remote {self.remote} is a multicast group: it needs dev", "remote")
        return self

    def addresses_below(self) -> list[IPAddress]:
        """Every underlay address that it names."""
        named = [self.local, self.remote, *(entry.dst for entry in self.fdb)]
        return [address for address in named if address is not None]


def create(link: Link) -> list[Operation]:
    """The device and its entries. The MTU is set later: in this message one too large is cut silently."""
    device: VxlanConfig = link.config
    info = attribute_values(ATTRIBUTES, device)
    if device.dev is not None:
        info["IFLA_VXLAN_LINK"] = Reference(device.dev)
    for address, attribute in ((device.remote, "IFLA_VXLAN_GROUP"), (device.local, "IFLA_VXLAN_LOCAL")):
        if address is not None:
            info[attribute + ("6" if address.version == 6 else "")] = str(address)
    if device.local is None and device.remote is None and _version(device) == 6:
        info["IFLA_VXLAN_LOCAL6"] = "::"  # without an address it would be one over IPv4
    entries = [AddForwarding(link.node, link.name, entry.mac, entry.dst) for entry in device.fdb]
    return [CreateLink(link.node, link.name, "vxlan", info=info), *entries]


def tunnel(device: VxlanConfig) -> Tunnel:
    version = _version(device)
    remotes = [device.remote] if device.remote is not None else []
    remotes += [entry.dst for entry in device.fdb]
    network = ("vxlan", device.id, device.dstport)
    return over(network, tuple(remotes), version, checksum=outer_checksum(device, version))


def _version(device: VxlanConfig) -> int:
    """The IP version of the underlay: 4 where no address says otherwise."""
    return next((address.version for address in device.addresses_below()), 4)


KIND = LinkKind(
    name="vxlan",
    config=VxlanConfig,
    kernel_option="CONFIG_VXLAN",
    create=create,
    lowers=lambda device: () if device.dev is None else (device.dev,),
    tunnel=tunnel,
    usual_mtu=None,
    merges=True,
    probe=Probe({"IFLA_VXLAN_ID": 1}),
)
