"""TAP devices by /dev/net/tun: make persistent ones, and open them with the offloads of a virtio guest."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

from testbed.errors import InputError, MissingCapability, TestbedError

TUN_DEVICE = "/dev/net/tun"
TUNSETIFF, TUNSETPERSIST, TUNSETOFFLOAD, TUNSETVNETHDRSZ = 0x400454CA, 0x400454CB, 0x400454D0, 0x400454D8
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_USO4, TUN_F_USO6 = 0x01, 0x02, 0x04, 0x20, 0x40

# What a guest with virtio-net accepts. USO came with Linux 6.2; a kernel refuses
# a set that holds anything it does not know.
TSO = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6
TSO_AND_USO = TSO | TUN_F_USO4 | TUN_F_USO6
# struct virtio_net_hdr_mrg_rxbuf, which QEMU and vhost use too.
VNET_HEADER_SIZE = 12

_FLAGS = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
_REQUEST = struct.Struct("16sH22x")  # struct ifreq: name, flags


def make_tap(name: str) -> int:
    """Make the TAP `name` in the calling thread's namespace, to stay when nobody has it open; its ifindex."""
    descriptor = _open(name)
    try:
        fcntl.ioctl(descriptor, TUNSETPERSIST, 1)
        return socket.if_nametoindex(name)
    finally:
        os.close(descriptor)


def attach_tap(name: str) -> int:
    """A descriptor of the TAP `name` in the calling thread's namespace.

    The TAP has its carrier while it is open. Frames are read and written with a
    virtio header of VNET_HEADER_SIZE bytes before them; checksums, TSO, and USO
    where the kernel has it, are offloaded, so that a GSO packet crosses as one frame.
    """
    descriptor = _open(name)
    try:
        fcntl.ioctl(descriptor, TUNSETVNETHDRSZ, struct.pack("=i", VNET_HEADER_SIZE))
        try:
            fcntl.ioctl(descriptor, TUNSETOFFLOAD, TSO_AND_USO)
        except OSError:
            fcntl.ioctl(descriptor, TUNSETOFFLOAD, TSO)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open(name: str) -> int:
    try:
        descriptor = os.open(TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENODEV, errno.ENXIO}:
            raise MissingCapability(
                f"this kernel cannot make a tap link: it needs CONFIG_TUN (no {TUN_DEVICE})"
            ) from None
        raise MissingCapability(f"{TUN_DEVICE}: {os.strerror(error.errno or 0)}; run as root") from None
    try:
        fcntl.ioctl(descriptor, TUNSETIFF, _REQUEST.pack(name.encode(), _FLAGS))
    except OSError as error:
        os.close(descriptor)
        text = os.strerror(error.errno or 0)
        if error.errno == errno.EPERM:
            raise MissingCapability(f"{name}: not permitted to open a TAP; run as root") from None
        kind = InputError if error.errno in {errno.EINVAL, errno.EEXIST} else TestbedError
        raise kind(f"{name}: cannot open as a TAP (kernel: {text})") from None
    return descriptor
