"""Root queueing disciplines as messages: the options of each kind in base units (ns, bytes, packets).

Layouts are those of include/uapi/linux/pkt_sched.h. Where the kernel has an
attribute in base units beside an old one in ticks, only the former is used.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from testbed.netlink.message import (
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    Request,
    attribute,
    attributes,
    text_attribute,
    u32,
)

RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
TC_H_ROOT = 0xFFFFFFFF
TCA_KIND, TCA_OPTIONS = 1, 2
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST = 1, 4, 6
TCA_NETEM_RATE, TCA_NETEM_RATE64, TCA_NETEM_LATENCY64, TCA_NETEM_JITTER64 = 6, 8, 10, 11
TC_LINKLAYER_ETHERNET = 1

# Kinds whose options are 32-bit attributes, by the names of `tc`; times in microseconds there.
U32_OPTIONS: Mapping[str, Mapping[str, int]] = {
    "noqueue": {},
    "fq": {"limit": 1, "flow_limit": 2, "maxrate": 7},
    "fq_codel": {"target": 1, "limit": 2, "interval": 3, "ecn": 4},
}

_TCMSG = struct.Struct("=BxxxiIII")
_RATESPEC = struct.Struct("=BBHhHI")
_TBF = struct.Struct("=12s12sIII")
_NETEM = struct.Struct("=IIIIII")
_NETEM_RATE = struct.Struct("=IiIi")
_U64 = struct.Struct("=Q")
_S64 = struct.Struct("=q")
Options = Mapping[str, int]


class HeldQdisc(NamedTuple):
    """A root qdisc as the kernel reports it."""

    ifindex: int
    kind: str
    options: dict[str, int]


def set_root(ifindex: int, kind: str, options: Options) -> Request:
    """Give a device that has the kernel's default another root qdisc.

    An option that is not given is the kernel's own. Recent kernels refuse to make one
    of the kind that is there.
    """
    head = _TCMSG.pack(0, ifindex, 0, TC_H_ROOT, 0)
    body = head + text_attribute(TCA_KIND, kind)
    encoded = _encode(kind, options)
    if encoded:
        body += attribute(TCA_OPTIONS, encoded)
    return Request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_EXCL, body)


def delete_root(ifindex: int) -> Request:
    """Take the root qdisc away, and leave the kernel's default."""
    return Request(RTM_DELQDISC, 0, _TCMSG.pack(0, ifindex, 0, TC_H_ROOT, 0))


def list_qdiscs() -> Request:
    return Request(RTM_GETQDISC, NLM_F_DUMP, _TCMSG.pack(0, 0, 0, 0, 0))


def decode_root(body: bytes) -> HeldQdisc | None:
    """A RTM_NEWQDISC, None for one that is not a device's root."""
    _, ifindex, _, parent, _ = _TCMSG.unpack_from(body)
    if parent != TC_H_ROOT:
        return None
    found = dict(attributes(body, _TCMSG.size))
    kind = found[TCA_KIND].rstrip(b"\0").decode()
    return HeldQdisc(ifindex, kind, _decode(kind, found.get(TCA_OPTIONS, b"")))


def _encode(kind: str, options: Options) -> bytes:
    if kind == "tbf":
        return _encode_tbf(options)
    if kind == "netem":
        return _encode_netem(options)
    return b"".join(u32(U32_OPTIONS[kind][name], value) for name, value in options.items())


def _decode(kind: str, data: bytes) -> dict[str, int]:
    if kind == "tbf":
        return _decode_tbf(dict(attributes(data)))
    if kind == "netem":
        return _decode_netem(data)
    names = {number: name for name, number in U32_OPTIONS.get(kind, {}).items()}
    return {
        names[number]: struct.unpack("=I", value)[0]
        for number, value in attributes(data)
        if number in names and len(value) == 4
    }


def _encode_tbf(options: Options) -> bytes:
    """`rate` in bytes a second, `burst` and `limit` in bytes; no rate table, the link layer is given."""
    rate = _RATESPEC.pack(0, TC_LINKLAYER_ETHERNET, 0, 0, 0, min(options["rate"], 2**32 - 1))
    parameters = _TBF.pack(rate, bytes(12), options["limit"], 0, 0)
    encoded = attribute(TCA_TBF_PARMS, parameters) + u32(TCA_TBF_BURST, options["burst"])
    if options["rate"] >= 2**32:
        encoded += attribute(TCA_TBF_RATE64, _U64.pack(options["rate"]))
    return encoded


def _decode_tbf(found: dict[int, bytes]) -> dict[str, int]:
    """The kernel reports the burst as a time at that rate, in ticks of 64 ns."""
    raw, _, limit, buffer, _ = _TBF.unpack_from(found[TCA_TBF_PARMS])
    rate = _RATESPEC.unpack(raw)[-1]
    if TCA_TBF_RATE64 in found:
        (rate,) = _U64.unpack(found[TCA_TBF_RATE64])
    return {"rate": rate, "limit": limit, "burst": round(buffer * 64 * rate / 1e9)}


def _encode_netem(options: Options) -> bytes:
    """`delay` and `jitter` in ns, `loss` in 2^-32, `rate` in bytes a second, `limit` in packets."""
    encoded = _NETEM.pack(0, options.get("limit", 1000), options.get("loss", 0), 0, 0, 0)
    if "delay" in options:
        encoded += attribute(TCA_NETEM_LATENCY64, _S64.pack(options["delay"]))
    if "jitter" in options:
        encoded += attribute(TCA_NETEM_JITTER64, _S64.pack(options["jitter"]))
    if "rate" in options:
        rate = options["rate"]
        encoded += attribute(TCA_NETEM_RATE, _NETEM_RATE.pack(min(rate, 2**32 - 1), 0, 0, 0))
        if rate >= 2**32:
            encoded += attribute(TCA_NETEM_RATE64, _U64.pack(rate))
    return encoded


def _decode_netem(data: bytes) -> dict[str, int]:
    _, limit, loss, _, _, _ = _NETEM.unpack_from(data)
    found = dict(attributes(data, _NETEM.size))
    held = {"limit": limit, "loss": loss, "delay": 0, "jitter": 0, "rate": 0}
    if TCA_NETEM_LATENCY64 in found:
        (held["delay"],) = _S64.unpack(found[TCA_NETEM_LATENCY64])
    if TCA_NETEM_JITTER64 in found:
        (held["jitter"],) = _S64.unpack(found[TCA_NETEM_JITTER64])
    if TCA_NETEM_RATE in found:
        held["rate"] = _NETEM_RATE.unpack(found[TCA_NETEM_RATE])[0]
    if TCA_NETEM_RATE64 in found:
        (held["rate"],) = _U64.unpack(found[TCA_NETEM_RATE64])
    return held
