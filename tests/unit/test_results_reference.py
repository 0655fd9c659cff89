"""The committed reference runs are read whole by today's code, and still show what they were made for."""

from pathlib import Path

import pytest

from testbed.analysis.reading import read_report

RESULTS = Path(__file__).parents[2] / "results"
REFERENCES = sorted(RESULTS.glob("reference-*"))


def test_every_reference_run_is_named_in_the_readme():
    readme = (RESULTS / "README.md").read_text()
    assert REFERENCES
    assert [folder.name for folder in REFERENCES if f"| {folder.name} |" not in readme] == []


@pytest.mark.parametrize("folder", REFERENCES, ids=lambda folder: folder.name)
def test_its_expectations_hold(folder):
    data = read_report(folder).data
    assert [problem for problem in data.problems if "rounds.jsonl" in problem] == []
    assert data.invalid == []
    assert [(one.expectation, one.holds) for one in data.expectations if one.holds is not True] == []
    assert data.expectations
