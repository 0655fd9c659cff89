"""Folders that are filled under a hidden name: a living program's stay, a killed one's are removed."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from testbed.unfinished import unfinished

FILLS = """\
import pathlib, sys, time
from testbed.unfinished import unfinished
with unfinished(pathlib.Path(sys.argv[1]), "kernel") as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("half")
    print(folder.name, flush=True)
    sys.stdin.read()
    if (folder / "deep" / "file").read_text() == "half":
        folder.rename(folder.parent / "kernel")
"""


def filling(parent):
    """A process that fills a folder below `parent` until its stdin is closed; the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", FILLS, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, parent / process.stdout.readline().strip()


def test_a_folder_that_gets_its_name_stays_and_one_that_does_not_goes(tmp_path):
    with unfinished(tmp_path, "one") as folder:
        (folder / "file").write_text("")
        folder.rename(tmp_path / "one")
    with pytest.raises(ZeroDivisionError), unfinished(tmp_path, "two") as folder:
        (folder / "file").write_text("")
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_killed_program_s_folder_goes_and_a_living_one_s_stays(tmp_path):
    living, kept = filling(tmp_path)
    killed, left = filling(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.exists()
    (tmp_path / ".profile").write_text("a hidden file of somebody else")
    with unfinished(tmp_path, "mine") as mine:
        assert {path.name for path in tmp_path.iterdir()} == {kept.name, mine.name, ".profile"}
    living.communicate()
    assert living.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"kernel", ".profile"}


def test_many_that_start_at_once_leave_each_other_alone(tmp_path):
    together = Barrier(8)

    def start():
        together.wait()
        for _ in range(30):
            with unfinished(tmp_path, "run") as folder:
                (folder / "file").write_text("mine")
                assert (folder / "file").read_text() == "mine"

    with ThreadPoolExecutor(8) as pool:
        for started in [pool.submit(start) for _ in range(8)]:
            started.result()
    assert list(tmp_path.iterdir()) == []
