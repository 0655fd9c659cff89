"""What pyroute2's releases lack, added to its tables: the one place where attributes are written out here.

pyroute2 numbers attributes by their place in a table, and leaves one that it does not know out of a message
without a word. So whoever needs one of these takes the message's class from here. Each entry falls away by
itself in a release that has it, and a table that has something else in its place is an error.

| added                                         | Linux has it since | pyroute2 has it since |
| --------------------------------------------- | ------------------ | --------------------- |
| IFLA_GSO_IPV4_MAX_SIZE, IFLA_GRO_IPV4_MAX_SIZE, and IFLA_DEVLINK_PORT before them | 6.3 | not in 0.9.7 |
| netkit                                        | 6.7                | not in 0.9.7          |
| IFLA_IPVLAN_FLAGS                             | 4.15               | not in 0.9.7          |
| the qdisc fq                                  | 3.12               | not in 0.9.7          |
| tbf from TCA_TBF_RATE64 to TCA_TBF_BURST      | 3.14               | not in 0.9.7          |
| netem from TCA_NETEM_ECN to TCA_NETEM_JITTER64 | 4.15              | not in 0.9.7          |
| the family netdev: NETDEV_CMD_BIND_TX         | 6.16               | not in 0.9.7          |
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from pyroute2.netlink import genlmsg, nla
from pyroute2.netlink.rtnl.ifinfmsg import ifinfbase, ifinfmsg, ifinfveth

__all__ = ["NETDEV_CMD_BIND_TX", "dmabuf", "ifinfmsg", "ifinfveth", "tcmsg"]

Rows = Mapping[int, tuple[str, str]]

RTEXT_FILTER_SKIP_STATS = 1 << 3  # IFLA_EXT_MASK: without counters
RT_TABLE_MAIN = 254  # a number in pyroute2's code, without a name

_LINK: Rows = {
    61: ("IFLA_ALLMULTI", "uint32"),  # the last of 0.9.5: an older release counts wrong from here on
    62: ("IFLA_DEVLINK_PORT", "hex"),
    63: ("IFLA_GSO_IPV4_MAX_SIZE", "uint32"),
    64: ("IFLA_GRO_IPV4_MAX_SIZE", "uint32"),
}
_IPVLAN: Rows = {1: ("IFLA_IPVLAN_MODE", "uint16"), 2: ("IFLA_IPVLAN_FLAGS", "uint16")}
_TBF: Rows = {
    3: ("TCA_TBF_PTAB", "ptab"),
    4: ("TCA_TBF_RATE64", "uint64"),
    5: ("TCA_TBF_PRATE64", "uint64"),
    6: ("TCA_TBF_BURST", "uint32"),
}
_NETEM: Rows = {
    6: ("TCA_NETEM_RATE", "netem_rate"),
    7: ("TCA_NETEM_ECN", "uint32"),
    8: ("TCA_NETEM_RATE64", "uint64"),
    9: ("TCA_NETEM_PAD", "hex"),
    10: ("TCA_NETEM_LATENCY64", "int64"),
    11: ("TCA_NETEM_JITTER64", "int64"),
}


class _netkit(nla):  # type: ignore[misc]
    nla_map = (
        ("IFLA_NETKIT_UNSPEC", "none"),
        ("IFLA_NETKIT_PEER_INFO", "peer"),
        ("IFLA_NETKIT_PRIMARY", "uint8"),
        ("IFLA_NETKIT_POLICY", "uint32"),
        ("IFLA_NETKIT_PEER_POLICY", "uint32"),
        ("IFLA_NETKIT_MODE", "uint32"),
    )
    peer = ifinfveth


class _fq(nla):  # type: ignore[misc]
    nla_map = (
        ("TCA_FQ_UNSPEC", "none"),
        ("TCA_FQ_PLIMIT", "uint32"),
        ("TCA_FQ_FLOW_PLIMIT", "uint32"),
        ("TCA_FQ_QUANTUM", "uint32"),
        ("TCA_FQ_INITIAL_QUANTUM", "uint32"),
        ("TCA_FQ_RATE_ENABLE", "uint32"),
        ("TCA_FQ_FLOW_DEFAULT_RATE", "uint32"),
        ("TCA_FQ_FLOW_MAX_RATE", "uint32"),
    )


NETDEV_CMD_BIND_TX = 15


class dmabuf(genlmsg):  # type: ignore[misc]
    """NETDEV_CMD_BIND_TX of the generic netlink family "netdev"."""

    nla_map = (
        ("NETDEV_A_DMABUF_UNSPEC", "none"),
        ("NETDEV_A_DMABUF_IFINDEX", "uint32"),
        ("NETDEV_A_DMABUF_QUEUES", "hex"),
        ("NETDEV_A_DMABUF_FD", "uint32"),
    )


def complete(kind: Any, rows: Rows, *users: Any) -> None:
    """Add those of `rows` (number -> name and type) for which the table of `kind` is too short.

    The first row must be there: it shows that the table counts as the kernel does. users: the classes
    that have their table from `kind`, itself unless given. ImportError where something else is at a number.
    """
    table = list(kind.nla_map)
    anchor = next(iter(rows))
    for number, row in rows.items():
        if number == len(table) and number != anchor:
            table.append(row)
        elif number >= len(table) or table[number][0] != row[0]:
            raise ImportError(
                f"this release of pyroute2 does not have {row[0]} as attribute {number} of {kind.__name__}: "
                "install 0.9.5 or a later one",
                name="pyroute2",
            )
    kind.nla_map = tuple(table)
    for user in users or (kind,):
        user().compile_nla_table()  # where it was used before, with the shorter table


@cache
def tcmsg() -> Any:
    """The class of a message about qdiscs. Imported on first use: that is 37 modules."""
    from pyroute2.netlink.rtnl.tcmsg import plugins, tcmsg

    complete(plugins["tbf"].options, _TBF)
    complete(plugins["netem"].options, _NETEM)
    plugins.setdefault("fq", SimpleNamespace(options=_fq))
    return tcmsg


complete(ifinfbase, _LINK, ifinfmsg, ifinfveth)
complete(ifinfmsg.ifinfo.data_map["ipvlan"], _IPVLAN)
if "netkit" not in ifinfmsg.ifinfo.data_map:
    ifinfmsg.ifinfo.register_link_kind(module={"netkit": _netkit})
