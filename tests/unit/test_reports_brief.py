"""The text report of a run with many states: tables over all of them instead of a block for each."""

import pytest
from made_rounds import made_round, made_run, made_state, packets

from testbed.records import Kernel
from testbed.reports.brief import MOST_STATES
from testbed.reports.data import make_report
from testbed.reports.text import text_report

KERNELS = ("6.18.5", "7.3.4")
AXES = {
    "family": {"ipv4": {"workload": {"family": 4}}, "ipv6": {"workload": {"family": 6}}},
    "limit": {f"gso{size}": {"settings": {"*:veth0": {"gso_max_size": size}}} for size in range(1000, 1012)},
}
STATES = [f"{family}-{limit}" for family in AXES["family"] for limit in AXES["limit"]]


@pytest.fixture(scope="module")
def text():
    """24 states on two kernels, of which the second is faster in the first state only."""
    rounds = [
        made_round(
            len(KERNELS) * (len(STATES) * block + position) + turn,
            state,
            block,
            (40 + block % 3) * 1e9 * (2.0 if turn and not position else 1.0),
            kernel=kernel,
            packet_sizes=packets("server:veth0", "rx", {86: 10, 862: 10, 65226: 100}),
        )
        for block in range(12)
        for position, state in enumerate(STATES)
        for turn, kernel in enumerate(KERNELS)
    ]
    expect = [{"*": {"bits_per_second": "> 1G"}}, {STATES[1]: {"server:veth0.rx.862.packets": "== 0"}}]
    run = made_run(
        {name: made_state() for name in STATES},
        kernels={name: Kernel(release=name, version="#1") for name in KERNELS},
        experiment={"name": "many", "matrix": {"axes": AXES}, "expect": expect},
    )
    return text_report(make_report(run, rounds))


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
