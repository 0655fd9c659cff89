"""Markdown, CSV, JUnit and KTAP, made from one run with everything in it."""

import csv
import io
from xml.etree import ElementTree

import pytest
from made_rounds import blocks_of, made_round, made_run, made_state, packets, sample_with

from testbed.analysis.report import make_report
from testbed.reports.ci import junit_report, ktap_report
from testbed.reports.csv import COLUMNS, csv_report
from testbed.reports.markdown import markdown_report


@pytest.fixture(scope="module")
def report():
    """States a and b with six rounds each, c skipped, one expectation met and one not."""
    states = {"a": made_state(), "b": made_state(nodelay=True), "c": made_state()}
    expect = [{"a": {"retransmits": "== 0"}}, {"b": {"bits_per_second": "< 1G"}}]
    experiment = {"name": "made", "compare": [["a", "b"]], "expect": expect}
    sizes = packets("server:veth0", "rx", {862: 5, 1514: 100})
    rounds = blocks_of(
        ["a", "b"],
        {"a": sample_with(6, 40e9, 1e9), "b": sample_with(6, 80e9, 1e9, 2)},
        packet_sizes=sizes,
    )
    run = made_run(states, experiment=experiment, skipped={"c": "veth.max_mtu is 65535"})
    return make_report(run, rounds)


def test_csv_is_tidy_and_complete(report):
    rows = list(csv.DictReader(io.StringIO(csv_report(report))))
    assert tuple(rows[0]) == COLUMNS
    bits = [float(row["value"]) for row in rows if row["metric"] == "bits_per_second" and row["state"] == "b"]
    assert len(bits) == 6
    assert sum(bits) / 6 == pytest.approx(80e9)
    sizes = {row["metric"]: row["value"] for row in rows if row["unit"] == "packets" and row["round"] == "0"}
    seen = {"server:veth0 rx 862": "5", "server:veth0 rx 1514": "100", "server:veth0 rx packets": "105"}
    assert sizes == seen


def test_junit_has_a_test_for_each_state_and_expectation(report):
    suite = ElementTree.fromstring(junit_report(report)).find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["5", "1", "1"]
    outcomes = {case.get("name"): [child.tag for child in case] for case in suite}
    assert outcomes["state c"] == ["skipped"]
    assert outcomes["expect b: bits_per_second < 1G"] == ["failure"]
    assert outcomes["expect a: retransmits == 0"] == ["system-out"]


def test_ktap_has_its_plan_and_a_line_for_each_test(report):
    lines = ktap_report(report).splitlines()
    assert lines[:2] == ["KTAP version 1", "1..5"]
    results = [line for line in lines if line.startswith(("ok ", "not ok "))]
    assert results == [
        "ok 1 state a",
        "ok 2 state b",
        "ok 3 state c # SKIP veth.max_mtu is 65535",
        "ok 4 expect a: retransmits == 0",
        "not ok 5 expect b: bits_per_second < 1G",
    ]


def test_a_state_with_fewer_rounds_than_the_others_fails():
    rounds = [made_round(i, state, 0) for i, state in enumerate("ab")]
    rounds.append(made_round(2, "a", 1))
    rounds.append(made_round(3, "b", 1, valid=False, reason="iperf3: refused"))
    text = ktap_report(make_report(made_run({"a": made_state(), "b": made_state()}), rounds))
    assert "not ok 2 state b" in text
    assert "# 1 of 2 rounds, run complete; last invalid round: iperf3: refused" in text


def test_markdown_tables_have_as_many_cells_in_each_row_as_in_their_header(report):
    text = markdown_report(report)
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) == 4
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1
    assert "| bitrate | +100.0% [" in text.replace("  ", " ")
    assert "> Skipped: c: veth.max_mtu is 65535" in text


def test_markdown_shows_names_with_marks_as_they_stand():
    report = make_report(made_run({"a*b|c": made_state()}), [made_round(0, "a*b|c", 0)])
    assert "a\\*b\\|c" in markdown_report(report)
