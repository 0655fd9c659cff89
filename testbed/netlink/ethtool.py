"""Features of devices (what `ethtool -k` shows), by the kernel's ioctl: no binary needed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import TestbedError
from testbed.netlink.namespaces import entered

SIOCETHTOOL = 0x8946
ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO, ETHTOOL_GFEATURES, ETHTOOL_SFEATURES = 0x1B, 0x37, 0x3A, 0x3B
ETH_SS_FEATURES, ETH_GSTRING_LEN = 4, 32


@dataclass(frozen=True)
class Feature:
    """One feature of one device. `fixed`: the device cannot change it."""

    active: bool
    requested: bool
    fixed: bool


class Features:
    """Reads and sets the features of the devices in one namespace."""

    def __init__(self, namespace: int) -> None:
        with entered(namespace):
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def close(self) -> None:
        self._socket.close()

    def get(self, device: str) -> dict[str, Feature]:
        """Every feature that the kernel knows, by its ethtool name, in the kernel's order."""
        names = self._names(device)
        blocks = (len(names) + 31) // 32
        answer = self._ioctl(device, struct.pack("=II", ETHTOOL_GFEATURES, blocks) + bytes(16 * blocks))
        words = [struct.unpack_from("=4I", answer, 8 + 16 * block) for block in range(blocks)]
        available, requested, active, never_changed = (
            sum(word[column] << (32 * block) for block, word in enumerate(words)) for column in range(4)
        )
        return {
            name: Feature(
                active=bool(active >> bit & 1),
                requested=bool(requested >> bit & 1),
                fixed=bool(never_changed >> bit & 1) or not available >> bit & 1,
            )
            for bit, name in enumerate(names)
            if name
        }

    def set(self, device: str, wanted: Mapping[str, bool]) -> None:
        """Ask for `wanted` (ethtool's long names). What came of it is in `get`: the kernel may hold back."""
        names = self._names(device)
        blocks = (len(names) + 31) // 32
        valid = sum(1 << names.index(name) for name in wanted)
        requested = sum(1 << names.index(name) for name, on in wanted.items() if on)
        words = [
            struct.pack("=II", valid >> 32 * block & 0xFFFFFFFF, requested >> 32 * block & 0xFFFFFFFF)
            for block in range(blocks)
        ]
        self._ioctl(device, struct.pack("=II", ETHTOOL_SFEATURES, blocks) + b"".join(words))

    def _names(self, device: str) -> Sequence[str]:
        """The kernel's feature names by bit; the same for every device, so they are asked for once."""
        global _known_names
        if not _known_names:
            _known_names = self._read_names(device)
        return _known_names

    def _read_names(self, device: str) -> tuple[str, ...]:
        info = struct.pack("=IIQI", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0)
        (count,) = struct.unpack_from("=I", self._ioctl(device, info), 16)
        request = struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count)
        answer = self._ioctl(device, request + bytes(count * ETH_GSTRING_LEN))
        raw = [answer[12 + index * ETH_GSTRING_LEN :][:ETH_GSTRING_LEN] for index in range(count)]
        return tuple(name.partition(b"\0")[0].decode() for name in raw)

    def _ioctl(self, device: str, request: bytes) -> bytes:
        """ifreq holds the device's name and a pointer to the command, which the kernel answers in place."""
        command = ctypes.create_string_buffer(request, len(request))
        ifreq = struct.pack("16sP16x", device.encode(), ctypes.addressof(command))
        try:
            fcntl.ioctl(self._socket, SIOCETHTOOL, ifreq)
        except OSError as error:
            raise TestbedError(
                f"{device}: cannot read or set features (kernel: {os.strerror(error.errno or 0)})"
            ) from None
        return command.raw


_known_names: tuple[str, ...] = ()
