"""scripts/packages: which rows hold for a release, and that the product's own hints agree with it."""

import os
import subprocess
from pathlib import Path

import pytest

from testbed.kernels import build
from testbed.probing import tools

ROOT = Path(__file__).resolve().parents[2]


def rows(wanted, release=None):
    """(what, package) of each row."""
    env = {**os.environ, "RELEASE": release or ""}
    argv = ["scripts/setup.sh", "list", wanted]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return [tuple(line.split()[1:]) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("release", "netperf", "virtiofsd"),
    [
        ("11", "non-free/netperf", ("file:/usr/lib/qemu/virtiofsd", "qemu-system-common")),
        ("12", "non-free/netperf", ("file:/usr/lib/qemu/virtiofsd", "qemu-system-common")),
        ("13", "netperf", ("file:/usr/libexec/virtiofsd", "virtiofsd")),
        ("14", "netperf", ("file:/usr/libexec/virtiofsd", "virtiofsd")),
    ],
)
def test_a_row_holds_for_the_releases_that_it_names(release, netperf, virtiofsd):
    listed = rows("test", release)
    assert [package for what, package in listed if what == "netperf"] == [netperf]
    assert [row for row in listed if "virtiofsd" in row[0]] == [virtiofsd]


def test_a_larger_set_contains_the_smaller_ones():
    run, test, vm = (set(rows(wanted, "12")) for wanted in ("run", "test", "vm"))
    assert run < test < vm
    assert ("mmdebstrap", "mmdebstrap") not in vm
    assert ("mmdebstrap", "mmdebstrap") in rows("fresh", "12")


def test_what_a_kernel_build_asks_for_is_set_up():
    listed = rows("vm", "13")
    assert set(build.TOOLS.items()) <= set(listed)
    assert {(f"file:{path}", package) for path, package in build.HEADERS.items()} <= set(listed)


def test_a_program_that_is_probed_is_named_with_the_package_that_set_up_installs():
    installed = dict(rows("vm", "13"))
    hints = {argv[0]: package.split(",")[0] for argv, _, package in tools.PROGRAMS.values()}
    assert {name: hints[name] for name in hints if name in installed} == {
        name: installed[name] for name in hints if name in installed
    }
    assert set(hints) - set(installed) == {"vng"}  # optional, and not in Debian 12


def test_every_row_is_complete():
    for line in (ROOT / "scripts" / "packages").read_text().splitlines():
        if line and not line.startswith("#"):
            chosen, need, _, _, *release = line.split()
            assert chosen in ("run", "test", "vm", "fresh")
            assert need in ("must", "may")
            assert len(release) <= 1
