"""Kernels of the archive to boot."""

from __future__ import annotations

import os

import pytest

from testbed.errors import InputError, TestbedError
from testbed.kernels import cache
from testbed.kernels.fetch import fetch
from testbed.versions import version_fits


def stock(version: str, flavour: str = "cloud") -> cache.BuiltKernel:
    """A kernel of the archive, from the cache where it is there.

    Where the archive is out of reach the test is skipped, but not in CI, and not
    where the archive answers that it has no such kernel: the test asks for the wrong one.
    """
    for kernel in reversed(cache.kernels()):
        held = kernel.provenance
        if held.flavour == flavour and version_fits(version, held.version):
            return kernel
    try:
        return fetch(version, flavour)
    except InputError:
        raise
    except TestbedError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no kernel {version} to boot: {error}")
