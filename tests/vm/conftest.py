"""Kernels to boot, and one guest that the default tests share."""

from __future__ import annotations

import pytest

from testbed.errors import TestbedError
from testbed.kernels import store
from testbed.kernels.fetch import fetch
from testbed.kernels.vm import Vm

# Debian stable's own: it stays in the archive for years.
STOCK = "6.12"


def stock(version: str, flavour: str = "cloud") -> store.BuiltKernel:
    """A kernel of the archive, from the cache where it is there."""
    for kernel in reversed(store.kernels()):
        held = kernel.provenance
        if held.flavour == flavour and store.version_fits(version, held.version):
            return kernel
    try:
        return fetch(version, flavour)
    except TestbedError as error:
        pytest.skip(f"no kernel {version} to boot: {error}")


@pytest.fixture(scope="session")
def guest(tmp_path_factory):
    """A booted stock kernel. A test that ends it boots its own instead."""
    with Vm(stock(STOCK), tmp_path_factory.mktemp("guest") / "vm") as vm:
        yield vm
