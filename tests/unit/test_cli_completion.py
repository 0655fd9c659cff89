"""Shell completion: what a shell asks, and what it gets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTBED = Path(sys.executable).parent / "testbed"


def complete(shell, line, **environment):
    words = line.split(" ")
    asked = {
        "_TESTBED_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        **environment,
    }
    done = subprocess.run([TESTBED], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_command_is_completed(shell):
    found = complete(shell, "testbed ker", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert "kernel" in found
    assert "report" not in found


def test_an_option_is_completed():
    assert complete("bash", "testbed run --ro").split() == ["--rounds"]


def test_bash_itself_completes_by_the_script_that_is_shown():
    script = (
        f'eval "$({TESTBED} --show-completion bash)"\n'
        "COMP_WORDS=(testbed kern); COMP_CWORD=1; _testbed_completion testbed; echo ${COMPREPLY[@]}"
    )
    path = f"{TESTBED.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script, "bash"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "kernel" in done.stdout.split(), done.stderr
