"""The pytest plugin as a user has it: pytest as a process of its own, on the example of the documentation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.lab import named

pytestmark = pytest.mark.requires("veth", "iperf3", "bpf")

EXAMPLE = Path(__file__).parents[2] / "docs" / "howto" / "test_big_tcp.py"

FAILS = """
def test_that_expects_too_much(lab, flow):
    lab.set({"*:veth0": {"gso_max_size": 100000}})
    seen = flow(lab, {"tool": "iperf3", "from": "client", "to": "server", "duration": 1})
    assert seen.largest("server:veth0") > 500000
"""


def run_pytest(folder, *options, stdin=""):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "SHELL": "/bin/sh"},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def failing(tmp_path):
    (tmp_path / "test_fails.py").write_text(FAILS)
    return tmp_path


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_example_passes_and_skips_with_the_capability_it_lacks(tmp_path, options):
    (tmp_path / EXAMPLE.name).write_text(EXAMPLE.read_text())
    done = run_pytest(tmp_path, *options)
    assert done.returncode == 0, done.stdout
    assert "2 passed, 1 skipped" in done.stdout
    assert "veth.max_mtu is 65535, needed >= 524280" in done.stdout


def test_failure_shows_the_settings_and_the_sizes_at_each_hop(failing):
    done = run_pytest(failing)
    assert done.returncode == 1
    assert re.search(r"client:veth0: mtu 1500 gso_max_size 100000", done.stdout)
    assert re.search(
        r"server:veth0 rx: largest \d{5}; most of the bytes in \d{5} \(\d+ packets\)", done.stdout
    )
    assert not [lab for lab in named.labs() if "expects-too-much" in lab.name]


def test_lab_of_a_failed_test_is_kept_by_name_where_asked_for(failing):
    done = run_pytest(failing, "--testbed-keep")
    (name,) = re.findall(r"testbed show (\S+); testbed down", done.stdout)
    try:
        with named.attached(name) as lab:
            assert lab.read_back()["client:veth0"]["gso_max_size"] == 100000
    finally:
        named.take_down(name)


def test_lab_of_a_test_that_passes_is_not_kept(tmp_path):
    (tmp_path / "test_passes.py").write_text("def test_passes(lab): assert lab.name\n")
    before = {lab.name for lab in named.labs()}
    assert run_pytest(tmp_path, "--testbed-keep").returncode == 0
    assert {lab.name for lab in named.labs()} == before


def test_shell_in_a_node_of_a_test_that_failed(failing):
    done = run_pytest(failing, "--testbed-shell", "client", stdin="ls /sys/class/net | tr '\\n' ' '\n")
    assert "a shell in client" in done.stderr
    assert "lo veth0" in done.stdout


def test_topology_beside_the_test(tmp_path):
    (tmp_path / "pair.yaml").write_text("nodes: {a: {devices: {x: {kind: veth, peer: b:y}}}, b: {}}\n")
    (tmp_path / "test_own.py").write_text(
        "def test_own(make_lab): assert set(make_lab('./pair.yaml').nodes) == {'a', 'b'}\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
