"""Root queueing disciplines: the options of each kind in base units (ns, bytes, packets).

Where the kernel has an attribute in base units beside an old one in ticks, only the former is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyroute2.netlink import NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, nla
from pyroute2.netlink.rtnl import RTM_DELQDISC, RTM_GETQDISC, RTM_NEWQDISC, TC_H_ROOT

from testbed.netlink.lacking import tcmsg
from testbed.netlink.request import Request, decoded, request

# Kinds whose options are 32-bit attributes, by the names of `tc`; times in microseconds there.
U32_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "noqueue": {},
    "fq": {"limit": "TCA_FQ_PLIMIT", "flow_limit": "TCA_FQ_FLOW_PLIMIT", "maxrate": "TCA_FQ_FLOW_MAX_RATE"},
    "fq_codel": {
        "target": "TCA_FQ_CODEL_TARGET",
        "limit": "TCA_FQ_CODEL_LIMIT",
        "interval": "TCA_FQ_CODEL_INTERVAL",
        "ecn": "TCA_FQ_CODEL_ECN",
    },
}
_U32 = 2**32 - 1
_QUEUE = ("backlog", "qlen", "drops", "overlimits", "requeues")  # of struct gnet_stats_queue
_TICK_NS = 64  # PSCHED_TICKS2NS in include/net/pkt_sched.h
Options = Mapping[str, int]


class ActualQdisc(NamedTuple):
    """A root qdisc as the kernel reports it."""

    ifindex: int
    kind: str
    options: dict[str, int]


class QdiscStats(NamedTuple):
    """What a root qdisc holds now, and what it has counted since it was made."""

    ifindex: int
    kind: str
    backlog_bytes: int
    backlog_packets: int
    drops: int
    overlimits: int
    requeues: int


def set_root(ifindex: int, kind: str, options: Options) -> Request:
    """Give a device that has the kernel's default another root qdisc.

    An option that is not given is the kernel's own. Recent kernels refuse to make one
    of the kind that is there.
    """
    message = tcmsg()()
    message["index"], message["parent"] = ifindex, TC_H_ROOT
    message["attrs"] = [("TCA_KIND", kind)]
    if value := _encoded(kind, options):
        message["attrs"].append(("TCA_OPTIONS", value))
    return request(message, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_EXCL)


def delete_root(ifindex: int) -> Request:
    """Take the root qdisc away, and leave the kernel's default."""
    message = tcmsg()()
    message["index"], message["parent"] = ifindex, TC_H_ROOT
    return request(message, RTM_DELQDISC)


def list_qdiscs() -> Request:
    return request(tcmsg()(), RTM_GETQDISC, NLM_F_DUMP)


def decode_root(data: bytes) -> ActualQdisc | None:
    """A RTM_NEWQDISC, None for one that is not a device's root."""
    message = decoded(tcmsg(), data)
    if message["parent"] != TC_H_ROOT:
        return None
    kind, options = message.get_attr("TCA_KIND"), message.get_attr("TCA_OPTIONS")
    return ActualQdisc(message["index"], kind, _decoded(kind, options) if options else {})


def decode_stats(data: bytes) -> QdiscStats | None:
    """The counters of a RTM_NEWQDISC (TCA_STATS2), None for one that is not a device's root."""
    message = decoded(tcmsg(), data)
    if message["parent"] != TC_H_ROOT:
        return None
    stats = message.get_attr("TCA_STATS2")
    queue = (stats.get_attr("TCA_STATS_QUEUE") if stats else None) or dict.fromkeys(_QUEUE, 0)
    counted = (queue[name] for name in _QUEUE)
    return QdiscStats(message["index"], message.get_attr("TCA_KIND"), *counted)


def _encoded(kind: str, options: Options) -> dict[str, Any]:
    if kind == "tbf":
        return _encoded_tbf(options)
    if kind == "netem":
        return _encoded_netem(options)
    attributes = [(U32_OPTIONS[kind][name], value) for name, value in options.items()]
    return {"attrs": attributes} if attributes else {}


def _decoded(kind: str, options: nla) -> dict[str, int]:
    if kind == "tbf":
        return _decoded_tbf(options)
    if kind == "netem":
        return _decoded_netem(options)
    values = {name: options.get_attr(attribute) for name, attribute in U32_OPTIONS.get(kind, {}).items()}
    return {name: value for name, value in values.items() if value is not None}


def _encoded_tbf(options: Options) -> dict[str, Any]:
    """`rate` in bytes a second, `burst` and `limit` in bytes; no rate table, the link layer is given."""
    from pyroute2.netlink.rtnl.tcmsg.common import LINKLAYER_ETHERNET

    rate = options["rate"]
    parameters = {"rate___reserved": LINKLAYER_ETHERNET, "rate": min(rate, _U32), "limit": options["limit"]}
    attributes: list[tuple[str, Any]] = [("TCA_TBF_PARMS", parameters), ("TCA_TBF_BURST", options["burst"])]
    return {"attrs": attributes + _above_32_bits("TCA_TBF_RATE64", rate)}


def _decoded_tbf(options: nla) -> dict[str, int]:
    """The kernel reports the burst as a time at that rate, in ticks."""
    parameters = options.get_attr("TCA_TBF_PARMS")
    rate = options.get_attr("TCA_TBF_RATE64") or parameters["rate"]
    burst = round(parameters["buffer"] * _TICK_NS * rate / 1e9)
    return {"rate": rate, "limit": parameters["limit"], "burst": burst}


def _encoded_netem(options: Options) -> dict[str, Any]:
    """`delay` and `jitter` in ns, `loss` in 2^-32, `rate` in bytes a second, `limit` in packets."""
    attributes: list[tuple[str, Any]] = []
    for name, attribute in (("delay", "TCA_NETEM_LATENCY64"), ("jitter", "TCA_NETEM_JITTER64")):
        if name in options:
            attributes.append((attribute, options[name]))
    if "rate" in options:
        attributes.append(("TCA_NETEM_RATE", {"rate": min(options["rate"], _U32)}))
        attributes += _above_32_bits("TCA_NETEM_RATE64", options["rate"])
    return {"limit": options.get("limit", 1000), "loss": options.get("loss", 0), "attrs": attributes}


def _decoded_netem(options: nla) -> dict[str, int]:
    rate = options.get_attr("TCA_NETEM_RATE64") or (options.get_attr("TCA_NETEM_RATE") or {"rate": 0})["rate"]
    return {
        "limit": options["limit"],
        "loss": options["loss"],
        "delay": options.get_attr("TCA_NETEM_LATENCY64") or 0,
        "jitter": options.get_attr("TCA_NETEM_JITTER64") or 0,
        "rate": rate,
    }


def _above_32_bits(attribute: str, rate: int) -> list[tuple[str, Any]]:
    """A rate that the old field, then at its largest, has no room for."""
    return [(attribute, rate)] if rate > _U32 else []
