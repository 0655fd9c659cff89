"""Probe for sending from device memory: a driver with netmem TX, a source of dmabufs, huge pages.

Drivers are asked, as no attribute tells: NETDEV_CMD_BIND_TX with a descriptor that
is none. A driver without netmem TX refuses with EOPNOTSUPP before the descriptor is
looked at, any other error means that it would have gone on. Nothing is bound.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from testbed.capabilities import Found
from testbed.netlink.channel import Refusal
from testbed.netlink.generic import ask_family, open_generic
from testbed.netlink.lacking import NETDEV_CMD_BIND_TX, dmabuf
from testbed.netlink.namespaces import own_namespace

_NO_DESCRIPTOR = 0xFFFFFFFF


def _netmem_tx() -> Found:
    """The machine's devices that can send from netmem, by name."""
    refusals = {name: _refusal(index) for index, name in socket.if_nameindex() if name != "lo"}
    able = [name for name, refused in refusals.items() if not refused]
    why = "; ".join(f"{name}: {refused}" for name, refused in refusals.items()) or "no device beside lo"
    return {"netmem_tx": ",".join(able) or False}, why


def _refusal(index: int) -> str:
    """The kernel's error where device `index` has no netmem TX, else an empty text."""
    namespace = own_namespace()
    try:
        with closing(open_generic(namespace)) as channel:
            device = {"NETDEV_A_DMABUF_IFINDEX": index, "NETDEV_A_DMABUF_FD": _NO_DESCRIPTOR}
            answer = ask_family(channel, "netdev", dmabuf, NETDEV_CMD_BIND_TX, device)
    finally:
        os.close(namespace)
    if isinstance(answer, Refusal) and answer.errno in (errno.EOPNOTSUPP, errno.ENOENT, errno.ENODEV):
        return answer.text or os.strerror(answer.errno)
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
    # hugepages_keeper.py has the folder too; importing testbed.workloads takes seconds in a guest.
    free = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
    if not free.exists():
        return {"hugepages": False}, "kernel option CONFIG_HUGETLBFS"
    return {"hugepages": True, "hugepages.free": int(free.read_text())}, ""


FINDERS: dict[str, Callable[[], Found]] = {
    "netmem_tx": _netmem_tx,
    "udmabuf": _udmabuf,
    "hugepages": _hugepages,
}
