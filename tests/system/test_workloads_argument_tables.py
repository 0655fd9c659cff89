"""The tables of options against the tools that are installed, and what a refused one looks like."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from preloaded_library import build

from testbed.workloads.iperf3_arguments import CLIENT, SERVER
from testbed.workloads.netperf_arguments import CLASSIC_TEST, GLOBAL, TEST


def options_of(library, *command: str) -> dict[str, bool]:
    """Option -> whether it takes a value, for the last table that the command gave to getopt."""
    told = subprocess.run(
        command, env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True, timeout=20
    ).stderr
    letters = re.findall(r"^short (.*)$", told, re.MULTILINE)[-1]
    short = {f"-{letter}": bool(value) for letter, value in re.findall(r"([^:])(:?)", letters)}
    long = {f"--{name}": value == "1" for name, value in re.findall(r"^long (\S+) (\d)$", told, re.MULTILINE)}
    return short | long


@pytest.mark.parametrize(
    ("command", "grammars"),
    [
        pytest.param(["iperf3", "-v"], [CLIENT, SERVER], marks=pytest.mark.requires("iperf3")),
        pytest.param(["netperf", "-V"], [GLOBAL], marks=pytest.mark.requires("netperf")),
        pytest.param(["netperf", "-t", "TCP_RR", "--", "-h"], [TEST], marks=pytest.mark.requires("netperf")),
        pytest.param(
            ["netperf", "-t", "TCP_SENDFILE", "--", "-h"],
            [CLASSIC_TEST],
            marks=pytest.mark.requires("netperf"),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value[0], str) else "",
)
def test_tables_hold_what_the_installed_tool_knows(tmp_path, command, grammars):
    if shutil.which(command[0]) is None:
        pytest.skip(f"the command {command[0]} is not installed")
    held = options_of(build("getopt_tables", tmp_path), *command)
    assert len(held) > 15
    known = {name: option for grammar in grammars for name, option in grammar.options.items()}
    assert held.keys() - known.keys() == set(), "options of the tool that the tables lack"
    may_be_given = {name: known[name].value is not None for name in held if known[name].refusal is None}
    assert may_be_given == {name: held[name] for name in may_be_given}


FILE = """\
topology: veth-pair
workload:
  tool: iperf3
  from: client
  to: server
  server_args:
    - --bind-dev
    - veth0
    - --pidf=/tmp/somewhere
states:
  one: {}
  two:
    workload:
      args: [-N6p5300]
"""


@pytest.mark.parametrize(
    ("state", "line", "said"),
    [
        ("one", 9, "'--pidf=/tmp/somewhere': --pidf may stand for --pidfile, which writes a file"),
        ("two", 14, "'-N6p5300': -N is set by the key 'nodelay'"),
    ],
)
def test_a_refused_option_is_told_with_file_and_line(tmp_path, state, line, said):
    path = tmp_path / "mine.yaml"
    path.write_text(FILE if state == "one" else FILE.replace("--pidf=/tmp/somewhere", "--snd-timeout=9"))
    done = subprocess.run(
        [sys.executable, "-m", "testbed", "run", path, "--state", state, "--results", tmp_path / "results"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert re.search(rf"mine\.yaml:{line}: state {state}: workload\.\w+\.\d: {re.escape(said)}", done.stderr)
    assert not (tmp_path / "results").exists()
