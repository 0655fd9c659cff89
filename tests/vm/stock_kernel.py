"""Kernels of the archive to boot."""

from __future__ import annotations

import pytest

from testbed.errors import TestbedError
from testbed.kernels import cache
from testbed.kernels.fetch import fetch


def stock(version: str, flavour: str = "cloud") -> cache.BuiltKernel:
    """A kernel of the archive, from the cache where it is there."""
    for kernel in reversed(cache.kernels()):
        held = kernel.provenance
        if held.flavour == flavour and cache.version_fits(version, held.version):
            return kernel
    try:
        return fetch(version, flavour)
    except TestbedError as error:
        pytest.skip(f"no kernel {version} to boot: {error}")
