"""`--help` says all of it: no summary is cut off, metavars say what is wanted, examples are commands."""

import shlex

import pytest
import typer.main

from testbed.cli import app
from testbed.cli.help import EXAMPLES, GROUPS, summary

ROOT = typer.main.get_command(app)


def commands(group=ROOT, above=()):
    for name, command in group.commands.items():
        yield (*above, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))


def help_of(path, run):
    return run([*path, "--help"]).output


@pytest.fixture
def run(monkeypatch):
    from typer.testing import CliRunner

    monkeypatch.setenv("COLUMNS", "80")
    return lambda words: CliRunner().invoke(app, words, terminal_width=80)


@pytest.mark.parametrize("path", [(), *(path for path, _ in commands())], ids=" ".join)
def test_nothing_is_cut_off_and_no_type_stands_for_what_is_wanted(path, run):
    shown = help_of(path, run)
    assert "Usage: " in shown
    assert not [line for line in shown.splitlines() if line.endswith("...") and "Usage" not in line]
    assert "<str>" not in shown and "<list[" not in shown and "<path>" not in shown and "range>" not in shown


def test_every_command_is_in_a_group_and_its_whole_first_sentence_is_shown(run):
    shown = "".join(help_of((), run).split())
    named = [name for names in GROUPS.values() for name in names]
    assert sorted(named) == sorted(ROOT.commands)
    for title in GROUPS:
        assert f"{title}:".replace(" ", "") in shown
    for command in ROOT.commands.values():
        assert summary(command.help).replace(" ", "") in shown


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_a_command_that_parses(line):
    words = shlex.split(line.partition(" > ")[0])
    if words[0] != "testbed":
        assert words[0] == "ip"
        return
    command, rest = ROOT, words[1:]
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context(words[0], rest)


def test_examples_are_of_commands_that_there_are():
    assert EXAMPLES.keys() <= {" ".join(path) for path, _ in commands()}


def test_a_setting_is_called_by_its_grammar(run):
    for path in (("run",), ("path",), ("set",)):
        assert "NODE:DEVICE.SETTING=VALUE" in help_of(path, run)
