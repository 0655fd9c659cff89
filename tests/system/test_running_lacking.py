"""What a machine lacks is found once, before the first round: exit status 3, with its name and its remedy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.requires("root", "veth", "iperf3")

ROOT = Path(__file__).resolve().parents[2]
# As the loader says it, for a program that was built for another release of Debian.
OTHER_LIBC = "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by {})"


def run(tmp_path, *options, tool="iperf3", **environment):
    """`testbed run` of one short round in a changed environment; nothing may have been measured."""
    experiment = tmp_path / "short.yaml"
    experiment.write_text(
        f"topology: veth-pair\nworkload: {{tool: {tool}, from: client, to: server, duration: 1}}\n"
    )
    argv = [sys.executable, "-m", "testbed", "run", experiment, "--rounds", "1", *options]
    argv += ["--results", tmp_path / "results"]
    env = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert "round" not in done.stderr, done.stderr
    assert not (tmp_path / "results").exists()
    return done


def told(done):
    """The one line that it ends with; exit status 3."""
    assert done.returncode == 3, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("testbed: ")]
    return line


def path_without(tmp_path, *names, **scripts):
    """A PATH with every program of this machine but `names`, and with `scripts` in their place."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    for place in ("/usr/sbin", "/usr/bin"):
        for program in Path(place).iterdir():
            if program.name not in names and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return folder


def broken_library(tmp_path, name):
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / name).write_bytes(b"no library at all" * 100)
    return folder


def test_a_folder_for_temporary_files_that_is_not_there(tmp_path):
    line = told(run(tmp_path, TMPDIR=tmp_path / "none"))
    assert "iperf3: the buffers of its streams go to" in line
    assert line.endswith("none: No such file or directory; set TMPDIR to a folder that can be written")


def test_no_setpriv(tmp_path):
    line = told(run(tmp_path, PATH=path_without(tmp_path, "setpriv")))
    assert line.endswith("setpriv: not installed, or not in PATH (apt-get install util-linux)")


def test_a_setpriv_that_lacks_what_is_needed(tmp_path):
    """As busybox's, which has no --pdeathsig."""
    path = path_without(tmp_path, setpriv="echo \"setpriv: unrecognized option '--pdeathsig'\" >&2; exit 1")
    line = told(run(tmp_path, PATH=path))
    assert "setpriv does not run: setpriv: unrecognized option '--pdeathsig'" in line
    assert line.endswith("(apt-get install util-linux)")


def test_a_library_of_the_tool_that_does_not_load(tmp_path):
    line = told(run(tmp_path, LD_LIBRARY_PATH=broken_library(tmp_path, "libiperf.so.0")))
    assert "libiperf.so.0: invalid ELF header (apt-get install libiperf0)" in line


def test_a_library_of_a_collector_that_does_not_load(tmp_path):
    folder = broken_library(tmp_path, "libbpf.so.1")
    line = told(run(tmp_path, "--collector", "bpf", LD_LIBRARY_PATH=folder))
    assert line.endswith("libbpf.so.1: invalid ELF header (apt-get install libbpf1)")


@pytest.mark.requires("netperf")
@pytest.mark.parametrize("program", ["netperf", "netserver"])
def test_a_tool_that_does_not_run(tmp_path, program):
    says = f"{program}: {OTHER_LIBC.format(program)}"
    path = path_without(tmp_path, **{program: f"cat >&2 <<'END'\n{says}\nEND\nexit 1"})
    line = told(run(tmp_path, tool="netperf", PATH=path))
    assert f"{path}/{program} does not run: {says} (apt install netperf" in line


@pytest.mark.parametrize("program", ["kperf-client", "kperf-server"])
def test_a_tool_without_a_package_that_does_not_run(tmp_path, program):
    scripts = {"kperf-client": "exit 0", "kperf-server": "exit 0", program: "echo cannot load >&2; exit 127"}
    line = told(run(tmp_path, tool="kperf", PATH=path_without(tmp_path, **scripts)))
    assert f"{program} does not run: cannot load (build kperf from source" in line


def test_perf_that_does_not_run(tmp_path):
    says = "E: linux-perf-6.99 is not installed."
    line = told(run(tmp_path, "--profile", PATH=path_without(tmp_path, perf=f"echo '{says}' >&2; exit 1")))
    assert line.endswith(f"perf does not run: {says} (apt-get install linux-perf)")


@pytest.mark.requires("perf")
def test_no_folder_at_all_for_temporary_files():
    """Python falls back to /tmp and others: here none of them can be written, nor can /proc."""
    program = "from testbed.evidence.profile import CpuProfile; CpuProfile()"
    script = (
        "for folder in /tmp /var/tmp /usr/tmp; do\n"
        # Bound over itself, so that a checkout that lies there stays readable.
        '    [ -d "$folder" ] || continue\n'
        '    mount --bind "$folder" "$folder" && mount -o remount,bind,ro "$folder" || exit\n'
        "done\n"
        f'cd /proc && exec {sys.executable} -c "{program}"'
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    argv = ["unshare", "--mount", "sh", "-c", script]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        "MissingCapability: no folder for temporary files: No usable temporary directory found in "
        "['/tmp', '/var/tmp', '/usr/tmp', '/proc']; set TMPDIR to one that can be written"
    )


def test_a_congestion_control_that_the_kernel_lacks(tmp_path):
    line = told(run(tmp_path, "--set", "workload.congestion=nosuch"))
    assert "congestion control nosuch: the kernel says 'No such file or directory'" in line
    assert "CONFIG_TCP_CONG_NOSUCH" in line
