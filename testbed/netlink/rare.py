"""Messages that are not worth an encoder of our own, made by pyroute2 (imported when first needed)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def link_info(kind: str, data: Mapping[str, Any]) -> bytes:
    """IFLA_LINKINFO of `kind`; `data` is its IFLA_INFO_DATA by the kernel's attribute names.

    KeyError for an attribute that pyroute2 does not know: it would drop it silently.
    """
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    known = {name for name, *_ in (row[-2:] for row in ifinfmsg.ifinfo.data_map[kind].nla_map)}
    for name in data:
        if name not in known:
            raise KeyError(f"{kind} attribute {name} is not known to pyroute2")
    message = ifinfmsg()
    info = [("IFLA_INFO_KIND", kind), ("IFLA_INFO_DATA", {"attrs": list(data.items())})]
    message["attrs"] = [("IFLA_LINKINFO", {"attrs": info})]
    message.encode()
    return bytes(message.data[32:])  # behind nlmsghdr and ifinfomsg
