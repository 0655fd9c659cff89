"""Settings of devices in /sys/class/net of a namespace: threaded NAPI, RPS and XPS CPUs."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Literal

from testbed.errors import TestbedError
from testbed.netlink.mounts import detached_mount
from testbed.netlink.namespaces import entered

Queue = Literal["rx", "tx"]


class Sysfs:
    """The files of the devices in one namespace. A file that is not there, or refuses, is an OSError."""

    def __init__(self, namespace: int) -> None:
        with entered(namespace):
            self._root = detached_mount("sysfs")

    def close(self) -> None:
        os.close(self._root)

    def threaded(self, device: str) -> bool:
        """Whether the device's NAPI polls run in threads of their own."""
        return self._read(device, "threaded") == "1"

    def set_threaded(self, device: str, on: bool) -> None:
        self._write(device, "threaded", "1" if on else "0")

    def cpus(self, device: str, queue: Queue) -> list[set[int]]:
        """By queue, the CPUs of receive packet steering (`rx`) or transmit packet steering (`tx`)."""
        return [parse_mask(self._read(device, file)) for file in self._steering(device, queue)]

    def set_cpus(self, device: str, queue: Queue, cpus: Collection[int]) -> None:
        """The same CPUs for every queue."""
        for file in self._steering(device, queue):
            self._write(device, file, format_mask(cpus))

    def _steering(self, device: str, queue: Queue) -> list[str]:
        name = {"rx": "rps_cpus", "tx": "xps_cpus"}[queue]
        folder = os.open(f"class/net/{device}/queues", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._root)
        try:
            entries = sorted(entry.name for entry in os.scandir(folder))
        finally:
            os.close(folder)
        return [f"queues/{entry}/{name}" for entry in entries if entry.startswith(f"{queue}-")]

    def _read(self, device: str, file: str) -> str:
        descriptor = self._open(device, file, os.O_RDONLY)
        try:
            return os.read(descriptor, 4096).decode().strip()
        finally:
            os.close(descriptor)

    def _write(self, device: str, file: str, value: str) -> None:
        descriptor = self._open(device, file, os.O_WRONLY)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)

    def _open(self, device: str, file: str, flags: int) -> int:
        return os.open(f"class/net/{device}/{file}", flags | os.O_CLOEXEC, dir_fd=self._root)


def format_mask(cpus: Collection[int]) -> str:
    """CPUs as the kernel writes a mask: hexadecimal words of 32 bits with commas between."""
    mask = sum(1 << cpu for cpu in set(cpus))
    words = [mask >> shift & 0xFFFFFFFF for shift in range(0, max(mask.bit_length(), 1), 32)]
    return ",".join(f"{word:08x}" for word in reversed(words))


def parse_mask(text: str) -> set[int]:
    """The CPUs in a mask as the kernel writes it. TestbedError for what is none."""
    try:
        mask = int(text.replace(",", ""), 16)
    except ValueError:
        raise TestbedError(f"'{text}' is not a mask of CPUs") from None
    return {bit for bit in range(mask.bit_length()) if mask >> bit & 1}
