"""A run's archive from anybody: what it may hold, and that reading it does nothing else."""

import gzip
import io
import tarfile

import pytest

from testbed.errors import InputError
from testbed.records import bundle
from testbed.records.bundle import unpacked
from testbed.records.store import RunWriter
from testbed.unfinished import write_whole


def member(name, content=b"{}", **fields):
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, content


def archive(path, *members):
    with tarfile.open(path, "w:gz") as tar:
        for made, content in [member("run/run.json"), *members]:
            tar.addfile(made, io.BytesIO(content))
    return path


def refusal(path):
    with pytest.raises(InputError) as caught, unpacked(path):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def test_plain_files_and_folders_are_read(tmp_path):
    path = archive(tmp_path / "a.tar.gz", member("run/raw/00000-a-client.json", b"raw", mode=0o4755))
    with unpacked(path) as folder:
        kept = folder / "raw/00000-a-client.json"
        assert (kept.read_text(), kept.stat().st_mode & 0o7000) == ("raw", 0)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["../outside.txt", "/tmp/outside.txt", "run/../../outside.txt", "run/a\nb"])
def test_a_name_that_leads_out_is_refused(tmp_path, name):
    assert "leads out of the run's folder" in refusal(archive(tmp_path / "a.tar.gz", member(name)))
    assert not (tmp_path / "outside.txt").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_nothing_but_plain_files(tmp_path, kind):
    link = member("run/raw", b"", type=kind, linkname="/etc")
    said = refusal(archive(tmp_path / "a.tar.gz", link, member("run/raw/x")))
    assert said == "'run/raw' is no plain file; nothing is read"


def test_what_unzips_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MAX_BYTES", 1 << 20)
    path = archive(tmp_path / "a.tar.gz", member("run/bomb", bytes(2 << 20)))
    assert path.stat().st_size < 1 << 16
    assert refusal(path) == "unpacks to more than 1 MiB, no run is so large"


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MAX_FILES", 10)
    path = archive(tmp_path / "a.tar.gz", *(member(f"run/{n}") for n in range(10)))
    assert refusal(path) == "holds more than 10 files, no run has so many"


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory_is_refused(tmp_path, kind):
    path = archive(tmp_path / "a.tar.gz", member("run/header", bytes(1 << 20), type=kind))
    assert refusal(path) == "not a tar of a run; make one with `testbed export`"


def test_what_is_no_tar_of_one_run_is_refused(tmp_path):
    (tmp_path / "text").write_text("not a tar")
    (tmp_path / "zipped").write_bytes(gzip.compress(b"not a tar"))
    whole = archive(tmp_path / "whole").read_bytes()
    (tmp_path / "torn").write_bytes(whole[: len(whole) // 2])
    for name in ("text", "zipped", "torn"):
        assert refusal(tmp_path / name) == "not a tar of a run; make one with `testbed export`"
    assert refusal(archive(tmp_path / "two", member("other/run.json"))) == (
        "an archive holds one run, this holds several"
    )


def test_a_file_of_a_run_replaces_a_link_and_follows_none(tmp_path):
    (tmp_path / "victim").write_text("as it was")
    (tmp_path / "report.txt").symlink_to("victim")
    write_whole(tmp_path / "report.txt", b"report")
    assert (tmp_path / "victim").read_text() == "as it was"
    assert (tmp_path / "report.txt").read_text() == "report"
    assert not (tmp_path / "report.txt").is_symlink()


@pytest.mark.parametrize("name", ["rounds.jsonl", "raw", "vm"])
def test_a_run_with_a_link_in_it_is_not_gone_on_with(tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"{name}: not a run's own"):
        RunWriter(folder, None)
    assert not any((tmp_path / "elsewhere").iterdir())
