"""What sending from device memory takes: a driver with netmem TX, a source of dmabufs, huge pages, kperf.

Drivers are asked, as no attribute tells: NETDEV_CMD_BIND_TX with a descriptor that
is none. A driver without netmem TX refuses with EOPNOTSUPP before the descriptor is
looked at, any other error means that it would have gone on. Nothing is bound.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.capabilities import Found
from testbed.workloads import hugepages_keeper, kperf

_BIND_TX = 15  # NETDEV_CMD_BIND_TX in include/uapi/linux/netdev.h
_NO_DESCRIPTOR = 0xFFFFFFFF


def _netmem_tx() -> Found:
    """The machine's devices that can send from netmem, by name."""
    words = {name: _refusal(index) for index, name in socket.if_nameindex() if name != "lo"}
    able = [name for name, refused in words.items() if not refused]
    why = "; ".join(f"{name}: {refused}" for name, refused in words.items()) or "no device beside lo"
    return {"netmem_tx": ",".join(able) or False}, why


def _refusal(index: int) -> str:
    """The kernel's words where device `index` has no netmem TX, else nothing."""
    from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST, genlmsg
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.generic import GenericNetlinkSocket

    class BindTx(genlmsg):  # type: ignore[misc]
        nla_map = (
            ("NETDEV_A_DMABUF_UNSPEC", "none"),
            ("NETDEV_A_DMABUF_IFINDEX", "uint32"),
            ("NETDEV_A_DMABUF_QUEUES", "hex"),
            ("NETDEV_A_DMABUF_FD", "uint32"),
        )

    message: Any = BindTx()
    message["cmd"], message["version"] = _BIND_TX, 1
    message["attrs"] = [("NETDEV_A_DMABUF_IFINDEX", index), ("NETDEV_A_DMABUF_FD", _NO_DESCRIPTOR)]
    sock = GenericNetlinkSocket(ext_ack=True)
    try:
        sock.bind("netdev", BindTx)
        sock.nlm_request(message, msg_type=sock.prid, msg_flags=NLM_F_REQUEST | NLM_F_ACK)
    except NetlinkError as error:
        if error.code in (errno.EOPNOTSUPP, errno.ENOENT, errno.ENODEV):
            return str(error.args[1]) if len(error.args) > 1 else os.strerror(error.code)
    finally:
        sock.close()
    return ""


def _udmabuf() -> Found:
    try:
        os.close(os.open("/dev/udmabuf", os.O_RDWR))
    except OSError as error:
        how = "kernel option CONFIG_UDMABUF; as a module: modprobe udmabuf"
        return {"udmabuf": False}, f"/dev/udmabuf: {error.strerror} ({how})"
    return {"udmabuf": True}, ""


def _hugepages() -> Found:
    """Huge pages of 2 MB: whether the kernel has them, and how many are free without reserving more."""
    free = Path(hugepages_keeper.POOL, "free_hugepages")
    if not free.exists():
        return {"hugepages": False}, "kernel option CONFIG_HUGETLBFS"
    return {"hugepages": True, "hugepages.free": int(free.read_text())}, ""


def _kperf() -> Found:
    missing = kperf.missing_programs()
    if missing:
        return {"kperf": False}, f"{' and '.join(missing)} not in PATH ({kperf.HOW_TO_GET})"
    return {"kperf": True}, ""


FINDERS: dict[str, Callable[[], Found]] = {
    "netmem_tx": _netmem_tx,
    "udmabuf": _udmabuf,
    "hugepages": _hugepages,
    "kperf": _kperf,
}
