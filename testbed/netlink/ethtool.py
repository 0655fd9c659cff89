"""Features of devices (what `ethtool -k` shows), by the kernel's ioctl: no binary needed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from pyroute2.ethtool.ioctl import ETH_SS_FEATURES, IoctlEthtool, NoSuchDevice, NotSupportedError

from testbed.errors import TestbedError
from testbed.netlink.namespaces import entered


@dataclass(frozen=True)
class Feature:
    """One feature of one device. `fixed`: the device cannot change it."""

    active: bool
    requested: bool
    fixed: bool


class _Ioctl(IoctlEthtool):  # type: ignore[misc]
    """Asks for the kernel's feature names once: they are the same for every device."""

    names: ClassVar[list[str]] = []

    def get_stringset(self, set_id: int = ETH_SS_FEATURES, *rest: int) -> list[str]:
        if not self.names:
            self.names.extend(super().get_stringset(set_id, *rest))
        return self.names


class Features:
    """Reads and sets the features of the devices in one namespace."""

    def __init__(self, namespace: int) -> None:
        with entered(namespace):
            self._ioctl = _Ioctl()

    def close(self) -> None:
        self._ioctl.close()

    def get(self, device: str) -> dict[str, Feature]:
        """Every feature that the kernel knows, by its ethtool name, in the kernel's order."""
        with self._of(device):
            actual = self._ioctl.get_features()
        return {
            name: Feature(
                active=actual.is_active(name),
                requested=actual.is_requested(name),
                fixed=actual.is_never_changed(name) or not actual.is_available(name),
            )
            for name in filter(None, self._ioctl.get_stringset())
        }

    def set(self, device: str, wanted: Mapping[str, bool]) -> None:
        """Ask for `wanted` (ethtool's long names). Read the result with `get`: the kernel may ignore some."""
        with self._of(device):
            features = self._ioctl.get_features()
            for name, on in wanted.items():
                features[name] = on
            try:
                self._ioctl.set_features(features)
            except NotSupportedError as error:
                if error.args:
                    raise
                # pyroute2 takes it for an error that the kernel did not do all of it.

    @contextmanager
    def _of(self, device: str) -> Iterator[None]:
        self._ioctl.change_ifname(device)
        try:
            yield
        except (OSError, NotSupportedError, NoSuchDevice) as error:
            numbers = {NotSupportedError: errno.EOPNOTSUPP, NoSuchDevice: errno.ENODEV}
            reason = os.strerror(numbers.get(type(error)) or getattr(error, "errno", None) or 0)
            raise TestbedError(f"{device}: cannot read or set features (kernel: {reason})") from None
