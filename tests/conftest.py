"""What every test shares: capabilities that a test needs, and what lack of one means.

`@pytest.mark.requires("bpf", "iperf3")` skips a test where one is missing, and
the skip's reason names it. In CI a capability that .ci/capabilities lists must
be there: missing, it fails the test instead of skipping it.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import hypothesis
import pytest

from testbed import probing

# A busy machine is no fault of what is tested.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

ROOT = Path(__file__).resolve().parent.parent
NEEDS_ROOT = (ROOT / "tests" / "system", ROOT / "tests" / "vm")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requires(*names): capabilities without which the test is skipped")
    config.addinivalue_line("markers", "slow: takes more than its share; only `make test-vm` runs it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in NEEDS_ROOT):
            item.add_marker(pytest.mark.requires("root"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("requires"):
        for name in marker.args:
            if name.partition(".")[0] not in probing.FINDERS:
                pytest.fail(f"nothing finds the capability {name}", pytrace=False)
            reason = missing(name)
            if reason and name in promised():
                pytest.fail(f"{name} is listed in .ci/capabilities, but {reason}", pytrace=False)
            if reason:
                pytest.skip(f"{name}: {reason}")


@functools.cache
def missing(name: str) -> str | None:
    """Why this machine lacks the capability `name`; None where it has it."""
    found = probing.find([name])
    return None if found.has(name) else found.why.get(name, "not found")


@functools.cache
def promised() -> frozenset[str]:
    """The capabilities that must be there: those of .ci/capabilities in CI, none elsewhere."""
    if os.environ.get("CI") != "true":
        return frozenset()
    lines = (ROOT / ".ci" / "capabilities").read_text(encoding="utf-8").splitlines()
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
