"""The text report of a run with many states: tables over all of them instead of a block for each."""

import pytest
from made_states import KERNELS, STATES, many_states_report

from testbed.reports.many_states import MOST_STATES
from testbed.reports.text import text_report


@pytest.fixture(scope="module")
def text():
    return text_report(many_states_report())


def test_each_state_stands_in_the_two_tables_and_nowhere_by_block(text):
    assert len(STATES) * len(KERNELS) > MOST_STATES
    for state in STATES:
        assert sum(line.startswith(f"{state} ") for line in text.splitlines()) == 2
    assert "server:veth0 rx 862:" not in text


def test_it_is_two_pages_of_75_columns(text):
    assert max(map(len, text.splitlines())) <= 75
    assert len(text.splitlines()) < 130


def test_the_effects_are_told_pair_by_pair_and_by_verdict(text):
    assert "Bitrate, a = 6.18.5, b = 7.3.4" in text
    assert any(line.split()[:2] == [STATES[0], "+100.0%"] for line in text.splitlines())
    assert f"b higher: {STATES[0]}." in text


def test_expectations_are_counted_and_those_not_met_are_named(text):
    assert "Expectations met: 48 of 50." in text
    assert text.count("NOT MET:") == 2


def test_the_words_of_the_states_names_are_explained(text):
    assert "family: ipv4 (family=4); ipv6 (family=6)." in text
    assert "gso1000 (gso_max_size=1000)" in text.replace("\n  ", " ")
