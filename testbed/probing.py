"""Finds, by trying, what this kernel and machine can do (values and names: testbed.capabilities).

A link kind is created in a throw-away namespace, a program is asked for its
version. Nothing is concluded from a kernel's version or from a file that merely exists.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from testbed.capabilities import Capabilities, Value

Found = tuple[dict[str, Value], str]
"""The values of one name and of its attributes, and, where it is missing, why and how to get it."""


def find(names: Iterable[str] | None = None) -> Capabilities:
    """The capabilities in `names` (`veth.max_mtu` finds all of `veth`), or everything there is to find.

    Takes some 10 ms for a link kind or a tool. A name that nobody can find is
    missing, and `why` says that it is unknown.
    """
    wanted = FINDERS if names is None else dict.fromkeys(name.partition(".")[0] for name in names)
    found = Capabilities()
    for name in wanted:
        finder = FINDERS.get(name)
        values, why = finder() if finder else ({name: False}, "unknown capability")
        found.values.update(values)
        if values.get(name) is False:
            found.why[name] = why
    return found


def _kernel() -> Found:
    return {"kernel": os.uname().release}, ""


def _cores() -> Found:
    return {"cores": len(os.sched_getaffinity(0))}, ""


def _root() -> Found:
    return {"root": os.geteuid() == 0}, "run it as root"


def _btf() -> Found:
    readable = os.access("/sys/kernel/btf/vmlinux", os.R_OK)
    return {"btf": readable}, "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"


def _link(name: str, kernel_option: str, kind: str, arguments: dict[str, Any]) -> Found:
    """Whether a device of `kind` can be made, its largest MTU and its tso_max_size, both in bytes."""
    try:
        largest_mtu, tso_max_size = _in_throwaway_namespace(partial(_limits_of_a_new_device, kind, arguments))
    except PermissionError:
        return {name: False}, "needs root"
    except _Refused as error:
        return {name: False}, f"the kernel says '{error}' (kernel option {kernel_option})"
    return {name: True, f"{name}.max_mtu": largest_mtu, f"{name}.tso_max_size": tso_max_size}, ""


class _Refused(Exception):
    """The kernel's words on a device that it would not make."""


def _limits_of_a_new_device(kind: str, arguments: dict[str, Any]) -> tuple[int, int]:
    """Make it in the current namespace: its largest MTU and its tso_max_size."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute(ext_ack=True) as netlink:

        def make(**device: Any) -> int:
            netlink.link("add", **device)
            return int(netlink.link_lookup(ifname=device["ifname"])[0])

        def takes_mtu(index: int, mtu: int) -> bool:
            try:
                netlink.link("set", index=index, mtu=mtu)
            except NetlinkError:
                return False
            return True

        try:
            lower = make(ifname="lower", kind="veth", peer="far")
            largest(partial(takes_mtu, lower), *_MTUS)  # leaves it there, out of the upper device's way
            given = {key: lower if value == "lower" else value for key, value in arguments.items()}
            device = make(ifname="tried", kind=kind, **given)
        except NetlinkError as error:
            raise _Refused(error.args[-1]) from None
        tso_max_size = netlink.link("get", index=device)[0].get_attr("IFLA_TSO_MAX_SIZE")
        return largest(partial(takes_mtu, device), *_MTUS), int(tso_max_size or 0)


_MTUS = (68, 2**31 - 1)


def largest(takes: Callable[[int], bool], low: int, high: int) -> int:
    """The largest value from `low` to `high` that is taken, by bisection; `low` is known to be."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if takes(middle) else (low, middle - 1)
    return low


T = TypeVar("T")
_CLONE_NEWNET = 0x40000000


def _in_throwaway_namespace(function: Callable[[], T]) -> T:
    """What `function` gives in a network namespace that ends with the thread that holds it."""
    results: list[T] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
            results.append(function())
        except BaseException as error:  # noqa: BLE001 (raised again in the caller's thread)
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


# Name -> kernel option, the kind as netlink spells it, and what it cannot be made without.
_LINKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "veth": ("CONFIG_VETH", "veth", {"peer": "peer"}),
    "bridge": ("CONFIG_BRIDGE", "bridge", {}),
    "tap": ("CONFIG_TUN", "tuntap", {"mode": "tap"}),
    "tun": ("CONFIG_TUN", "tuntap", {"mode": "tun"}),
    "vxlan": ("CONFIG_VXLAN", "vxlan", {"vxlan_id": 1}),
    "geneve": ("CONFIG_GENEVE", "geneve", {"geneve_id": 1, "geneve_remote": "192.0.2.1"}),
    "netkit": ("CONFIG_NETKIT", "netkit", {}),
    "macvlan": ("CONFIG_MACVLAN", "macvlan", {"link": "lower", "macvlan_mode": "bridge"}),
    "ipvlan": ("CONFIG_IPVLAN", "ipvlan", {"link": "lower"}),
    "vlan": ("CONFIG_VLAN_8021Q", "vlan", {"link": "lower", "vlan_id": 1}),
    "dummy": ("CONFIG_DUMMY", "dummy", {}),
}


def _tool(name: str, argv: list[str], package: str) -> Found:
    """A program's version: the first dotted number that it prints when asked."""
    path = shutil.which(argv[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        return {name: False}, f"not installed (Debian: {package})"
    try:
        asked = subprocess.run([path, *argv[1:]], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {name: False}, f"{path} does not run: {error}"
    version = re.search(r"\d+(?:\.\d+)+", asked.stdout + asked.stderr)
    if asked.returncode and not version:
        return {name: False}, f"{path} does not run: exit status {asked.returncode}"
    return {name: version[0] if version else True}, ""


_TOOLS: dict[str, tuple[list[str], str]] = {
    "iperf3": (["iperf3", "--version"], "iperf3"),
    "netperf": (["netperf", "-V"], "netperf, in the component non-free before Debian 13"),
    "perf": (["perf", "--version"], "linux-perf"),
    "bpftrace": (["bpftrace", "--version"], "bpftrace"),
    "tcpdump": (["tcpdump", "--version"], "tcpdump"),
    "ip": (["ip", "-V"], "iproute2"),
    "ethtool": (["ethtool", "--version"], "ethtool"),
    "clang": (["clang", "--version"], "clang"),
    "qemu": (["qemu-system-x86_64", "--version"], "qemu-system-x86"),
    "vng": (["vng", "--version"], "virtme-ng"),
    "kperf": (["kperf", "--version"], "none, build it from its source"),
    "chromium": (["chromium", "--version"], "chromium"),
}

FINDERS: dict[str, Callable[[], Found]] = {
    "kernel": _kernel,
    "cores": _cores,
    "root": _root,
    "btf": _btf,
    **{name: partial(_link, name, *how) for name, how in _LINKS.items()},
    **{name: partial(_tool, name, *how) for name, how in _TOOLS.items()},
}
"""One entry for each name that can stand before the first dot."""
