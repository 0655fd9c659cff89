"""pytest plugin: labs and flows as fixtures, capabilities and kernels as markers.

    @pytest.mark.topology("veth-router")
    def test_big_tcp_crosses_the_router(lab, flow):
        lab.set({"*:veth*": {"gso_max_size": 128000, "gro_max_size": 128000}})
        seen = flow(lab, {"tool": "iperf3", "from": "client", "to": "server", "duration": 1})
        assert seen.largest("server:veth0") > 65536

Fixtures: `make_lab`, `lab` (of the marker `topology`), `flow`. Markers: `topology(name)`,
`capabilities(*names, **conditions)`, `kernel(name)`. Options: `--testbed-keep` leaves the
labs of a failed test up, `--testbed-shell NODE` stops in a shell in it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testbed.errors import MissingCapability
from testbed.testing.guest import Guests, kernel_of, report

if TYPE_CHECKING:
    from testbed.lab.lab import Lab
    from testbed.library import FlowRecord
    from testbed.topology.spec import Topology

_LABS = pytest.StashKey[list[Any]]()
_FLOWS = pytest.StashKey[list[Any]]()
_FAILED = pytest.StashKey[bool]()
_GUESTS = pytest.StashKey[Guests]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("testbed")
    group.addoption("--testbed-keep", action="store_true", help="leave the labs of failed tests up, by name")
    group.addoption("--testbed-shell", metavar="NODE", help="stop in a shell in NODE when a test fails")


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "topology(name): what the fixture `lab` brings up: a shipped name, or a file beside the test",
        "capabilities(*names, **conditions): skip where one is missing; x_y='>= 1' asks for x.y",
        "kernel(name): run the test in a guest that boots this kernel of `testbed kernel list`",
    ):
        config.addinivalue_line("markers", line)


@pytest.fixture
def make_lab(request: pytest.FixtureRequest) -> Iterator[Callable[[str | Topology], Lab]]:
    """Brings a topology up until the test ends: a shipped name, a file beside the test, or a Topology."""
    keep = request.config.getoption("--testbed-keep")
    with ExitStack() as stack:

        def make(topology: str | Topology) -> Lab:
            wanted = _beside(request.path, topology)
            try:
                made = stack.enter_context(_named(request.node, wanted) if keep else _unnamed(wanted))
            except MissingCapability as missing:
                pytest.skip(str(missing))
            request.node.stash.setdefault(_LABS, []).append(made)
            return made

        yield make


@pytest.fixture
def lab(request: pytest.FixtureRequest, make_lab: Callable[[str], Lab]) -> Lab:
    """The lab of the marker `topology`; veth-pair without one."""
    marker = request.node.get_closest_marker("topology")
    return make_lab(marker.args[0] if marker else "veth-pair")


@pytest.fixture
def flow(request: pytest.FixtureRequest) -> Callable[..., FlowRecord]:
    """`testbed.measure_flow`. What it measured is in the report of a test that fails."""
    from testbed.library import measure_flow

    def measure(lab: Lab, workload: Mapping[str, Any], **options: Any) -> FlowRecord:
        try:
            measured = measure_flow(lab, workload, **options)
        except MissingCapability as missing:
            pytest.skip(str(missing))
        request.node.stash.setdefault(_FLOWS, []).append(measured)
        return measured

    return measure


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("capabilities"):
        if reasons := _unmet(marker.args, marker.kwargs):
            pytest.skip("; ".join(reasons))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """A test with a kernel runs in a guest: no fixture of it is set up here."""
    kernel = kernel_of(item)
    if kernel is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    begun = time.monotonic()
    outcome, text = item.config.stash.setdefault(_GUESTS, Guests()).run(kernel, item)
    ended = report(item, outcome, text, time.monotonic() - begun)
    item.ihook.pytest_runtest_logreport(report=ended)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    ended = yield
    if call.when == "call" and ended.failed:
        from testbed.testing import failure

        item.stash[_FAILED] = True
        labs = item.stash.get(_LABS, [])
        ended.sections += failure.sections(labs, item.stash.get(_FLOWS, []))
        node = item.config.getoption("--testbed-shell")
        if node is not None and labs:
            failure.shell(item.config, labs[-1], node)
    return ended


def pytest_unconfigure(config: pytest.Config) -> None:
    if guests := config.stash.get(_GUESTS, None):
        guests.close()


def _unmet(names: tuple[str, ...], conditions: Mapping[str, str]) -> list[str]:
    """What is missing here, each with its reason. `veth_max_mtu` in a keyword is veth.max_mtu."""
    from testbed.probing import find

    requires: dict[str, str | bool] = {name.replace("_", ".", 1): text for name, text in conditions.items()}
    requires |= dict.fromkeys(names, True)
    return find(requires).unmet(requires)


def _unnamed(topology: str | Topology) -> Lab:
    from testbed.lab.lab import open_lab

    return open_lab(topology)


@contextmanager
def _named(item: pytest.Item, topology: str | Topology) -> Iterator[Lab]:
    """A lab with a name, taken down at the end unless the test failed."""
    from testbed.lab import named
    from testbed.topology.loading import load_topology

    loaded = load_topology(topology) if isinstance(topology, str) else topology
    short = re.sub(r"[^a-z0-9]+", "-", item.name.lower()).strip("-")[:20]
    # The process, because workers of pytest-xdist run the same test's siblings at the same time.
    name = f"{short}-{os.getpid()}-{len(item.stash.get(_LABS, []))}"
    named.bring_up(loaded, name, str(item.path))
    try:
        with named.attached(name) as attached:
            yield attached
    finally:
        if not item.stash.get(_FAILED, False):
            named.take_down(name)


def _beside(test: Path, topology: str | Topology) -> str | Topology:
    """A path in a test is relative to the test's file."""
    if isinstance(topology, str) and ("/" in topology or topology.endswith((".yaml", ".yml"))):
        return str(test.parent / topology)
    return topology
