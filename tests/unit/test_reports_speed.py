"""A long run's report: what its lines are read for, and in which time."""

import time
from collections import deque

import msgspec
import pytest
from made_many import many_lines, many_run
from made_nagle import nagle_run

from testbed import records
from testbed.experiments.store import open_run, write_run
from testbed.reports import lean
from testbed.reports.data import make_report
from testbed.reports.output import read_report

LEAN = [one for one in vars(lean).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of 300 rounds of some 18 KB each."""
    folder = tmp_path_factory.mktemp("many")
    write_run(folder, many_run())
    with (folder / "rounds.jsonl").open("w") as file:
        file.writelines(many_lines(300))
    return folder


@pytest.mark.parametrize("model", LEAN, ids=lambda model: model.__name__)
def test_lean_models_have_the_names_and_defaults_of_the_records(model):
    record = getattr(records, model.__name__)
    for one in msgspec.structs.fields(model):
        known = record.model_fields[one.encode_name]
        assert one.required == known.is_required(), one.name
        if not one.required:
            default = one.default_factory() if one.default is msgspec.NODEFAULT else one.default
            held = known.get_default(call_default_factory=True)
            if isinstance(default, msgspec.Struct):
                assert msgspec.to_builtins(default).items() <= held.model_dump().items(), one.name
            else:
                assert default == held, one.name


def test_lines_and_records_give_the_same_report(folder):
    stored = open_run(folder)
    by_records = make_report(stored.run, stored.rounds()).data
    assert read_report(folder).data == by_records


def test_a_line_that_breaks_off_is_left_out_and_told(folder):
    run, rounds = nagle_run()
    lines = [record.model_dump_json().encode() for record in rounds]
    path = folder.parent / "broken"
    path.mkdir(exist_ok=True)
    write_run(path, run)
    (path / "rounds.jsonl").write_bytes(b"\n".join(lines)[:-5])
    data = read_report(path).data
    assert len(data.problems) == 1
    assert f"rounds.jsonl:{len(lines)}: not a whole round, left out" in data.problems[0]
    assert sum(counts.valid for counts in data.rounds.values()) == len(rounds) - 2 - 1


def test_lines_are_read_for_their_figures_in_a_third_of_the_time_of_whole_records(folder):
    """Repeated, as another process may slow one of the two down."""
    stored = open_run(folder)

    def ratio():
        began = time.process_time()
        deque(stored.rounds(), maxlen=0)
        whole = time.process_time()
        deque(stored.lines(lean.read), maxlen=0)
        return (time.process_time() - whole) / (whole - began)

    assert min(ratio() for _ in range(3)) < 0.33
