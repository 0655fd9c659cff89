"""The text report, line by line."""

import pytest
from made_rounds import blocks_of, made_round, made_run, made_state, packets, sample_with

from testbed.analysis.report import MetricSummary, make_report
from testbed.reports.figures_text import folded, ratio_words, with_interval
from testbed.reports.text import ascii_report, text_report

BIG_TCP = {"client:veth0": {"mtu": 1500, "gso_max_size": 524280}, "server:veth0": {"mtu": 1500}}


def nagle_text():
    """84 rounds of the state that the thread starts from, with its bitrate and one of its sizes."""
    bits = [value * 1e9 for value in sample_with(84, 241.35, 7.17)]
    acks = [round(value) for value in sample_with(84, 647034.43, 47311.70, 2)]
    rounds = []
    for block in range(84):
        sizes = packets("client:veth0", "rx", {86: acks[block]})
        sizes += packets("server:veth0", "rx", {862: 400_000, 511310: 400_000} if block > 2 else {512086: 4})
        rounds.append(made_round(block, "big-tcp", block, bits[block], packet_sizes=sizes))
    return text_report(make_report(made_run({"big-tcp": made_state(BIG_TCP)}), rounds))


def test_a_state_is_a_header_in_brackets_a_bitrate_and_a_line_for_each_end_and_size():
    lines = nagle_text().splitlines()
    start = lines.index("[84 rounds, big-tcp: mtu=1500 client:veth0 gso_max_size=524280]")
    # The published interval ends in 242.91: its mean was rounded up before it was printed.
    assert lines[start + 1] == "bitrate Gbit/s: 241.35 [239.79, 242.91] ±7.17"
    assert lines[start + 2].startswith("client:veth0 rx 86: 647034.")
    assert lines[start + 3].startswith("server:veth0 rx 862: 385714.29 [")
    assert lines[start + 3].endswith(", in 81 of 84 rounds")
    assert lines[start + 5] == "server:veth0 rx, 1 more size: 0.00% of the bytes"


def two_states(**fields):
    rounds = blocks_of(["a", "b"], {"a": sample_with(8, 100e9, 1e9), "b": sample_with(8, 110e9, 1e9, 2)})
    states = {"a": made_state(BIG_TCP), "b": made_state(BIG_TCP, nodelay=True)}
    return make_report(made_run(states, **fields), rounds)


def test_states_and_comparisons_stand_in_tables():
    text = text_report(two_states())
    assert "[8 rounds, b: mtu=1500 client:veth0 gso_max_size=524280 nodelay]" in text
    assert "a = a, b = b, 8 pairs" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("bitrate  "))
    assert row.split()[:1] + row.split()[-3:] == ["bitrate", "0.008", "b", "higher"]
    assert "+10.0% [" in row


def test_prose_and_tables_are_at_most_75_columns_wide():
    for line in text_report(two_states()).splitlines():
        assert len(line) <= 75 or line.startswith(("[", "client:", "server:")), line


def test_columns_that_do_not_fit_follow_in_a_table_of_their_own():
    header = ["state", "a" * 40, "b" * 30, "c" * 36]
    lines = folded(header, [["big-tcp", "1", "2", "3"]], right=(1, 2, 3))
    assert lines == [
        f"state    {'a' * 40}",
        f"big-tcp  {'1':>40}",
        "",
        f"state    {'b' * 30}",
        f"big-tcp  {'2':>30}",
        "",
        f"state    {'c' * 36}",
        f"big-tcp  {'3':>36}",
    ]


@pytest.mark.parametrize(
    ("mean", "ci95", "words"),
    [
        (0.285, (0.2701, 0.2999), "0.285 [0.270, 0.300]"),
        (117.26, (98.5, 136), "117 [98.5, 136]"),
        (2.5, None, "2.50"),
    ],
)
def test_a_figure_has_three_digits_and_its_interval(mean, ci95, words):
    summary = MetricSummary(
        unit="s/GB", n=3, mean=mean, sd=None, ci95=ci95, median=mean, mad=0, min=mean, max=mean
    )
    assert with_interval(summary) == words


def test_ascii_report_has_no_other_character():
    text = ascii_report(two_states())
    assert text.isascii()
    assert "+-1.00" in text


def test_an_interrupted_run_says_so_first():
    text = text_report(two_states(status="interrupted"))
    assert text.splitlines()[2] == "Note: the run was interrupted after 16 valid rounds."


def test_skipped_states_and_invalid_rounds_are_told_with_their_reasons():
    run = made_run({"a": made_state(), "b": made_state()}, skipped={"b": "veth.max_mtu is 65535"})
    rounds = [made_round(0, "a", 0), made_round(1, "a", 1, valid=False, reason="iperf3: refused")]
    text = text_report(make_report(run, rounds))
    assert "Skipped: b: veth.max_mtu is 65535" in text
    assert "1 invalid round does not count: round 1, a: iperf3: refused" in text


def test_too_few_rounds_says_how_many_are_needed():
    rounds = blocks_of(["a", "b"], {"a": [1e9, 1.1e9], "b": [2e9, 2.1e9]})
    text = text_report(make_report(made_run({"a": made_state(), "b": made_state()}), rounds))
    assert "too few rounds" in text
    assert "need at least 6 pairs each" in text


def test_what_one_end_sends_and_the_other_receives_is_shown_once():
    rows = packets("client:veth0", "tx", {512094: 100}) + packets("server:veth0", "rx", {512094: 100})
    rows += packets("router:tap0", "tx", {1514: 9000})
    text = text_report(make_report(made_run({"a": made_state()}), [made_round(0, "a", 0, packet_sizes=rows)]))
    assert "server:veth0 rx 512094" in text
    assert "router:tap0 tx 1514" in text
    assert "client:veth0 tx" not in text


def test_a_run_without_any_round_is_reported_too():
    text = text_report(make_report(made_run({"a": made_state()}, status="interrupted"), []))
    assert "interrupted after 0 valid rounds" in text


@pytest.mark.parametrize(
    ("ratio", "interval", "words"),
    [
        (1.048, (1.031, 1.065), "+4.8% [+3.1%, +6.5%]"),
        (0.39, (0.034, 4.48), "0.39x [0.03x, 4.48x]"),
        (10.9, (9.0, 13.2), "10.90x [9.00x, 13.20x]"),
        (1.5, None, "+50.0%"),
    ],
)
def test_a_ratio_and_its_interval_are_written_alike(ratio, interval, words):
    assert ratio_words(ratio, interval) == words
