"""The guest that the default tests share."""

from __future__ import annotations

import pytest
from stock_kernel import stock

from testbed.guests.vm import Vm

# Debian stable's own: it stays in the archive for years.
STOCK = "6.12"


@pytest.fixture(scope="session")
def guest(tmp_path_factory):
    """A booted stock kernel. A test that ends it boots its own instead."""
    with Vm(stock(STOCK), tmp_path_factory.mktemp("guest") / "vm") as vm:
        yield vm
