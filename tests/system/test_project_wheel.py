"""The wheel, installed outside the checkout, has everything that the program needs at run time."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A fresh virtual environment with the wheel; the libraries it needs are those of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    (wheel,) = folder.glob("testbed-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    run(sys.executable, "-m", "pip", "--python", folder / "venv", "install", "--no-deps", wheel)
    (site,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    # Named in a .pth, a folder's own .pth files are not read: the editable install stays out.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "venv" / "bin"


def run(*argv, cwd=ROOT):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd, env=clean)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requires("clang")
def test_the_installed_package_is_not_the_checkout(installed, tmp_path):
    where = run(installed / "python", "-c", "import testbed; print(testbed.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(installed.parent)


@pytest.mark.requires("clang")
def test_every_shipped_topology_and_experiment_is_found_by_name(installed, tmp_path):
    listed = json.loads(run(installed / "testbed", "experiment", "list", "--json", cwd=tmp_path))
    assert {item["name"] for item in listed} == {path.stem for path in (ROOT / "experiments").glob("*.yaml")}
    for path in (ROOT / "topologies").glob("*.yaml"):
        assert json.loads(run(installed / "testbed", "plan", path.stem, "--json", cwd=tmp_path))


@pytest.mark.requires("clang", "bpf", "veth")
def test_probe_of_the_installed_package_loads_its_own_bpf_program(installed, tmp_path):
    record = json.loads(run(installed / "testbed", "probe", "--json", cwd=tmp_path))
    assert record["capabilities"]["bpf"] is True
    assert record["experiments"]["nagle"]["big-tcp"] == []


@pytest.mark.requires("clang", "veth")
def test_the_installed_package_brings_a_shipped_topology_up_and_down(installed, tmp_path):
    name = f"wheel-{os.getpid()}"
    run(installed / "testbed", "up", "veth-pair", "--name", name, cwd=tmp_path)
    try:
        shown = json.loads(run(installed / "testbed", "show", name, "--json", cwd=tmp_path))
        assert "client:veth0" in json.dumps(shown)
    finally:
        run(installed / "testbed", "down", name, cwd=tmp_path)


def test_a_wheel_is_not_built_without_clang(tmp_path):
    """Without the compiled program the wheel would be installed and fail only when it measures."""
    copy = tmp_path / "source"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "results", "*.o"))
    bare = tmp_path / "bin"
    bare.mkdir()
    argv = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, copy]
    done = subprocess.run(argv, capture_output=True, text=True, env={"PATH": str(bare)}, check=False)
    assert done.returncode != 0
    assert "testbed: a wheel holds the compiled BPF program: clang is not installed" in done.stderr
