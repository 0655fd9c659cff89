"""A run's folder: what is written can be read, whenever the writer dies."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from testbed.errors import InputError, TestbedError
from testbed.records.round import Round
from testbed.records.run import Run
from testbed.records.store import RunWriter, find_run, open_run


def a_run(**fields):
    base = {"schema": 1, "run_id": "20261130T101500Z-x", "experiment": {"name": "x"}, "topology": {}}
    return Run.model_validate(
        {**base, "status": "running", "started": "2026-11-30T10:15:00Z", "seed": 1, **fields}
    )


def a_round(number):
    return Round(round=number, block=0, position=0, state="s", kernel="k", started="t", ended="t")


def test_rounds_come_back_as_written(tmp_path):
    writer = RunWriter.create(tmp_path, a_run())
    for number in range(3):
        writer.append(a_round(number))
    writer.end("complete")
    writer.close()
    stored = open_run(writer.folder)
    assert stored.run.status == "complete"
    assert [record.round for record in stored.rounds()] == [0, 1, 2]
    assert stored.problems == []
    assert json.loads((writer.folder / "run.json").read_text())["schema"] == 1


def test_a_second_run_of_the_same_second_gets_a_number(tmp_path):
    first, second = RunWriter.create(tmp_path, a_run()), RunWriter.create(tmp_path, a_run())
    assert [first.folder.name, second.folder.name] == ["20261130T101500Z-x", "20261130T101500Z-x-2"]
    assert second.run.run_id == "20261130T101500Z-x-2"


def test_a_run_killed_while_its_folder_is_made_leaves_nothing_that_looks_like_a_run(tmp_path):
    program = (
        "import os, pathlib, signal, sys\n"
        "sys.path.insert(0, 'tests/unit')\n"
        "from test_records_store import *\n"
        "os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"RunWriter.create(pathlib.Path({str(tmp_path)!r}), a_run())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
    with pytest.raises(InputError, match="holds no run yet"):
        find_run("latest", tmp_path)
    assert len(list(tmp_path.iterdir())) == 1, "the half-made folder"

    writer = RunWriter.create(tmp_path, a_run())
    assert list(tmp_path.iterdir()) == [writer.folder], "the next run removes it"


def test_what_a_killed_writer_left_beside_run_json_goes_when_the_run_is_resumed(tmp_path):
    writer = RunWriter.create(tmp_path, a_run())
    (writer.folder / ".run.json.4711").write_text("{")
    writer.close()
    RunWriter(writer.folder, writer.run).close()
    assert sorted(path.name for path in writer.folder.iterdir()) == ["raw", "rounds.jsonl", "run.json"]


def test_a_run_whose_folder_cannot_be_filled_leaves_none(tmp_path, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TestbedError, match="No space left on device"):
        RunWriter.create(tmp_path, a_run())
    assert list(tmp_path.iterdir()) == []


def test_a_live_run_is_running_and_cannot_be_taken_over(tmp_path):
    writer = RunWriter.create(tmp_path, a_run())
    assert open_run(writer.folder).run.status == "running"
    with pytest.raises(TestbedError, match="another testbed run is writing it"):
        RunWriter(writer.folder, a_run())


def test_a_killed_run_reads_as_interrupted_and_its_torn_line_is_left_out(tmp_path):
    program = (
        "import sys, time, pathlib\n"
        "sys.path.insert(0, 'tests/unit')\n"
        "from test_records_store import *\n"
        f"writer = RunWriter.create(pathlib.Path({str(tmp_path)!r}), a_run())\n"
        "writer.append(a_round(0)); writer._rounds.write(b'{\"round\": 1, '); writer._rounds.flush()\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    folder = find_run("latest", tmp_path)
    stored = open_run(folder)
    assert stored.run.status == "interrupted"
    assert [record.round for record in stored.rounds()] == [0]
    assert len(stored.problems) == 1
    assert ":2: not a whole round" in stored.problems[0]
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"

    writer = RunWriter(folder, stored.run)
    writer.append(a_round(1))
    writer.close()
    assert [record.round for record in open_run(folder).rounds()] == [0, 1]


def test_latest_is_the_run_written_last(tmp_path):
    older = RunWriter.create(tmp_path, a_run(run_id="z"))
    newer = RunWriter.create(tmp_path, a_run(run_id="a"))
    os.utime(older.folder / "run.json", (1, 1))
    os.utime(newer.folder / "run.json", (time.time(), time.time()))
    assert find_run("latest", tmp_path) == newer.folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not a run: it has no run.json"),
        ("{", "not a run"),
        ("{}", "not a run: run_id"),
        (a_run(schema=99).model_dump_json(by_alias=True), "schema 99 is newer"),
    ],
)
def test_what_is_no_run_is_told_in_one_line(tmp_path, text, message):
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError) as caught:
        open_run(tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
