"""`testbed report` on folders: what it prints, keeps and refuses."""

import json
import os

import pytest
from made_rounds import blocks_of, made_run, made_state, sample_with
from typer.testing import CliRunner

from testbed.cli import app
from testbed.errors import InputError
from testbed.records.store import RunWriter


@pytest.fixture
def results(tmp_path):
    """A results folder with one complete run of eight pairs."""
    states = {"a": made_state(), "b": made_state(nodelay=True)}
    writer = RunWriter.create(tmp_path, made_run(states))
    for record in blocks_of(list(states), {"a": sample_with(8, 1e9, 1e7), "b": sample_with(8, 2e9, 1e7, 2)}):
        writer.append(record)
    writer.close()
    return tmp_path


def report(results, *arguments):
    return CliRunner().invoke(
        app, ["report", *arguments, "--results", str(results)], catch_exceptions=False, standalone_mode=False
    )


def test_latest_a_run_id_and_a_folder_give_the_same_report(results):
    folder = next(results.iterdir())
    texts = {report(results, name).stdout for name in ("latest", folder.name, str(folder))}
    assert len(texts) == 1
    assert "[8 rounds, b: nodelay]" in texts.pop()


def test_text_is_kept_in_the_folder_and_made_again(results):
    folder = next(results.iterdir())
    printed = report(results, "latest").stdout
    assert (folder / "report.txt").read_text() == printed


def test_output_names_the_only_file_written(results, tmp_path):
    folder = next(results.iterdir())
    printed = report(results, folder.name, "--format", "json", "--output", str(tmp_path / "out.json")).stdout
    assert printed == ""
    assert json.loads((tmp_path / "out.json").read_text())["rounds"]["b"]["valid"] == 8
    assert not (folder / "report.txt").exists()


def test_a_running_run_without_its_process_is_interrupted(results):
    folder = next(results.iterdir())
    body = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(body | {"status": "running", "pid": 1}))
    assert "Note: the run was interrupted after 16 valid rounds." in report(results, "latest").stdout


def test_a_broken_last_line_is_told_and_the_rest_used(results):
    path = next(results.iterdir()) / "rounds.jsonl"
    os.truncate(path, path.stat().st_size - 40)
    text = report(results, "latest").stdout
    assert "[7 rounds, b: nodelay]" in text
    assert "rounds.jsonl:16: not a whole" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing: no such run"),
        (["latest", "--format", "jsn"], "no format 'jsn', did you mean 'json'"),
    ],
)
def test_bad_input_is_one_line(results, arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        report(results, *arguments)
    assert "\n" not in str(caught.value)


def test_a_newer_schema_is_refused(results):
    folder = next(results.iterdir())
    body = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(body | {"schema": 99}))
    with pytest.raises(InputError, match="newer"):
        report(results, "latest")
