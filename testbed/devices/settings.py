"""Settings of a device, under the names that the kernel, iproute2 and ethtool give them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from ipaddress import IPv4Interface, IPv6Interface
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from testbed.devices.features import PATTERNS, replaces
from testbed.devices.qdisc import Qdisc
from testbed.unit_fields import Bytes32
from testbed.yamlfile import mistake

Cpu = Annotated[int, Field(strict=True, ge=0, le=8191)]  # of the largest NR_CPUS that Kconfig offers
Cpus = tuple[Cpu, ...]
Queues = Annotated[int, Field(strict=True, ge=1, le=4096)]
U32 = Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)]

# Those that are one attribute of the link, in the order in which they are set:
# the kernel resets gso_ipv4_max_size when gso_max_size falls to 65536 or below
# (netif_set_gso_max_size in include/linux/netdevice.h), and gro likewise.
LINK_SETTINGS = (
    "mac",
    "mtu",
    "txqueuelen",
    "gso_max_size",
    "gso_max_segs",
    "gro_max_size",
    "gso_ipv4_max_size",
    "gro_ipv4_max_size",
)

# A general limit and the one for IPv4 that the kernel sets with it, up to LEGACY_MAX_SIZE.
COUPLED = {"gso_max_size": "gso_ipv4_max_size", "gro_max_size": "gro_ipv4_max_size"}
LEGACY_MAX_SIZE = 65536  # GSO_LEGACY_MAX_SIZE in include/linux/netdevice.h

# Fixed when the device is made.
AT_CREATION = ("num_tx_queues", "num_rx_queues")


def _interface(value: Any) -> IPv4Interface | IPv6Interface:
    if isinstance(value, IPv4Interface | IPv6Interface):
        return value
    text = str(value)
    address, slash, _ = text.partition("/")
    if not slash:
        raise ValueError(f"address {text} needs a prefix length, such as {text}/{64 if ':' in text else 24}")
    try:
        interface = IPv6Interface(text) if ":" in address else IPv4Interface(text)
    except ValueError:
        raise ValueError(f"'{text}' is not an IPv4 or IPv6 address with a prefix length") from None
    if interface.ip.is_multicast or interface.ip.is_unspecified:
        kind = "a multicast" if interface.ip.is_multicast else "the unspecified"
        raise ValueError(f"'{text}' is {kind} address, a device needs a unicast one")
    return interface


def _mac(value: str) -> str:
    if not re.fullmatch(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", value):
        raise ValueError(f"'{value}' is not a MAC address such as 02:00:00:00:00:01")
    if not int(value.replace(":", ""), 16):
        raise ValueError(f"'{value}' is all zeros, a device needs a unicast address")
    if int(value[:2], 16) & 1:
        raise ValueError(f"'{value}' is a multicast address, a device needs a unicast one")
    return value.lower()


# No setting has such a name: a short name of ethtool, or one of the kernel with its hyphens.
_FEATURE = re.compile(rf"^({'|'.join(PATTERNS)}|[a-z0-9]+(-[a-z0-9_*]+)+)$")

Interface = Annotated[
    IPv4Interface | IPv6Interface,
    BeforeValidator(_interface),
    WithJsonSchema({"type": "string", "description": "an address with its prefix length"}),
]
Mac = Annotated[str, AfterValidator(_mac)]


class Settings(BaseModel):
    """Settings of a device. One that is not given keeps the kernel's default."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"patternProperties": {_FEATURE.pattern: {"type": "boolean"}}},
    )

    mac: Mac | None = Field(None, description="the device's Ethernet address")
    mtu: Bytes32 | None = Field(None, description="bytes, without the Ethernet header")
    txqueuelen: U32 | None = Field(None, description="packets")
    gso_max_size: Bytes32 | None = Field(None, description="bytes; IPv6, and IPv4 up to 65536")
    gso_max_segs: U32 | None = Field(None, description="segments of a GSO packet")
    gro_max_size: Bytes32 | None = Field(None, description="bytes; IPv6, and IPv4 up to 65536")
    gso_ipv4_max_size: Bytes32 | None = Field(None, description="bytes; IPv4")
    gro_ipv4_max_size: Bytes32 | None = Field(None, description="bytes; IPv4")
    num_tx_queues: Queues | None = Field(None, description="transmit queues, fixed at creation")
    num_rx_queues: Queues | None = Field(None, description="receive queues, fixed at creation")
    qdisc: Qdisc | None = Field(None, description="the root qdisc: a kind (fq), or a kind with its options")
    rps_cpus: Cpus | None = Field(None, description="receive packet steering: CPUs, for every queue")
    xps_cpus: Cpus | None = Field(None, description="transmit packet steering: CPUs, for every queue")
    threaded: Annotated[bool, Field(strict=True)] | None = Field(
        None, description="NAPI in threads of its own; needs a device that is polled, such as veth with gro"
    )
    features: dict[str, Annotated[bool, Field(strict=True)]] = Field(
        default_factory=dict, description="on or off by ethtool's names, long or short (tso, gso, gro...)"
    )
    addresses: tuple[Interface, ...] = Field((), description="IPv4 and IPv6, with prefix length")

    @model_validator(mode="before")
    @classmethod
    def _features_by_name(cls, given: Any) -> Any:
        """A feature may stand beside the settings, `tso: off`, as on the command line."""
        if not isinstance(given, Mapping):
            return given
        named = {name: on for name, on in given.items() if _FEATURE.fullmatch(str(name))}
        features = given.get("features", {})
        if not named or not isinstance(features, Mapping):
            return given
        for name in named:
            if name in features:
                raise mistake("stands among the features too", name)
        rest = {name: value for name, value in given.items() if name not in named}
        return {**rest, "features": {**features, **named}}

    def link_values(self) -> dict[str, int | str]:
        """The settings that are attributes of the link and are given, in the order to set them."""
        given = {name: getattr(self, name) for name in (*AT_CREATION, *LINK_SETTINGS)}
        return {name: value for name, value in given.items() if value is not None}

    def changed_values(self, changes: Settings) -> dict[str, int | str]:
        """The link values of `changes` to these settings (`changes` included), with what the kernel couples.

        A general limit comes with the one for IPv4: as these settings state it, and
        where they do not, as a new device would have it, whatever it had before.
        """
        values = changes.link_values()
        for general, ipv4 in COUPLED.items():
            if general in values and ipv4 not in values:
                stated = getattr(self, ipv4)
                values[ipv4] = min(int(values[general]), LEGACY_MAX_SIZE) if stated is None else stated
        return {name: values[name] for name in (*AT_CREATION, *LINK_SETTINGS) if name in values}

    def only(self, names: Collection[str]) -> Settings:
        """A copy with only the settings in `names`."""
        return Settings.model_construct({*names}, **{name: getattr(self, name) for name in names})

    def overlaid(self, changes: Settings) -> Settings:
        """These settings with `changes` on top: features one by one, everything else replaced.

        A feature by the kernel's own name gives way to a later offload that covers it.
        """
        given = {name: getattr(changes, name) for name in changes.model_fields_set}
        if "features" in given:
            kept = {
                name: on
                for name, on in self.features.items()
                if not any(replaces(change, name) for change in changes.features)
            }
            given["features"] = {**kept, **changes.features}
        return self.model_copy(update=given)
