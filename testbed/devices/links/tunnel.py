"""What vxlan and geneve share: frames in UDP packets over an underlay of IPv4 or IPv6."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from testbed.devices.links.kind import IPAddress, Tunnel
from testbed.devices.settings import Settings
from testbed.headers import IP_HEADERS, UDP_HEADER

TUNNEL_HEADER = 8  # vxlan's header and geneve's without options are of one size


def _address(value: Any) -> Any:
    try:
        return ip_address(str(value))
    except ValueError:
        raise ValueError(f"'{value}' is not an IPv4 or IPv6 address") from None


Address = Annotated[IPAddress, BeforeValidator(_address), WithJsonSchema({"type": "string"})]
Vni = Annotated[int, Field(strict=True, ge=0, le=2**24 - 1)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Ttl = Annotated[int, Field(strict=True, ge=0, le=255)]


class TunnelSettings(Settings):
    """Options of the outer packet, by iproute2's names; what is not given is the kernel's choice."""

    ttl: Ttl | None = Field(None, description="of the outer packet; 0 takes over the inner one's")
    udpcsum: bool | None = Field(None, description="checksum the outer UDP packet over IPv4")
    udp6zerocsumtx: bool | None = Field(None, description="send without a UDP checksum over IPv6")
    udp6zerocsumrx: bool | None = Field(None, description="accept packets without a UDP checksum over IPv6")


def attribute_values(names: Mapping[str, str], device: Any) -> dict[str, Any]:
    """Attribute -> value for those fields of `device` that are given; `names` maps field -> attribute."""
    return {
        attribute: getattr(device, name)
        for name, attribute in names.items()
        if getattr(device, name) is not None
    }


def over(
    network: tuple[str | int, ...], remotes: tuple[IPAddress, ...], version: int, *, checksum: bool
) -> Tunnel:
    """UDP over IP of `version` (4 or 6), with or without an outer checksum."""
    outer = IP_HEADERS[version] + UDP_HEADER + TUNNEL_HEADER
    feature = "tx-udp_tnl-csum-segmentation" if checksum else "tx-udp_tnl-segmentation"
    return Tunnel(network, remotes, outer, feature)


def outer_checksum(device: TunnelSettings, version: int) -> bool:
    """Whether the outer UDP packet carries a checksum: it does unless that is turned off."""
    if version == 4:
        return device.udpcsum is not False
    return device.udp6zerocsumtx is not True
