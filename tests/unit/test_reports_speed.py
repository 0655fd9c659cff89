"""A long run's report: what its lines are read for, and in which time."""

import json
import time
from collections import deque

import msgspec
import pytest
from made_many import many_lines, many_run
from made_nagle import nagle_run

from testbed.analysis.metric_key import packet_size
from testbed.analysis.reading import read_report
from testbed.records.store import open_run, write_run
from testbed.reports.output import render, report_maker


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of 300 rounds of some 18 KB each."""
    folder = tmp_path_factory.mktemp("many")
    write_run(folder, many_run())
    with (folder / "rounds.jsonl").open("w") as file:
        file.writelines(many_lines(300))
    return folder


def summaries_of(folder, whole):
    return read_report(folder, whole=whole).data.states["big-tcp"]


def test_rare_sizes_have_no_summary_where_none_is_shown_and_the_rest_is_the_same(folder):
    every, few = (summaries_of(folder, whole) for whole in (True, False))
    assert few.items() <= every.items()
    dropped = [packet_size(name) for name in every.keys() - few.keys()]
    assert len(dropped) > 1000
    assert all(dropped)


@pytest.mark.parametrize("format", ["text", "markdown", "table", "html", "junit"])
def test_what_a_format_does_not_show_is_not_missing_in_it(folder, format):
    assert render(folder, format) == report_maker(format)(read_report(folder, whole=True))


def test_the_work_of_a_text_report_does_not_grow_with_rare_sizes(folder):
    """Each round brings sizes that no other has; what is summarised stays what the report shows."""
    assert all(len(summaries) < 200 for summaries in read_report(folder).data.states.values())


def test_a_line_that_breaks_off_is_left_out_and_told(folder):
    run, rounds = nagle_run()
    lines = [msgspec.json.encode(record) for record in rounds]
    path = folder.parent / "broken"
    path.mkdir(exist_ok=True)
    write_run(path, run)
    (path / "rounds.jsonl").write_bytes(b"\n".join(lines)[:-5])
    data = read_report(path).data
    assert len(data.problems) == 1
    assert f"rounds.jsonl:{len(lines)}: not a whole round, left out" in data.problems[0]
    assert sum(counts.valid for counts in data.rounds.values()) == len(rounds) - 2 - 1


def test_reading_a_line_takes_less_than_half_the_time_of_the_json_module(folder):
    """Repeated, as another process may slow one of the two down."""
    stored = open_run(folder)

    def ratio():
        began = time.process_time()
        deque(map(json.loads, (folder / "rounds.jsonl").open("rb")), maxlen=0)
        plain = time.process_time()
        deque(stored.rounds(), maxlen=0)
        return (time.process_time() - plain) / (plain - began)

    assert min(ratio() for _ in range(3)) < 0.5
