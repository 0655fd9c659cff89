"""Expectations: what they mean, what they refuse."""

from itertools import product

import pytest
from made_many import many_lines, many_run
from made_rounds import blocks_of, made_round, made_run, made_state, packets, sample_with
from msgspec.json import Decoder

from testbed.analysis.expect import metric_named, parse
from testbed.analysis.metric_key import DeviceMetric, key_of, packet_size
from testbed.analysis.report import make_report, report_data
from testbed.records.round import Round
from testbed.records.run import Kernel
from testbed.reports.text import text_report

SIDE = "server:veth0"
RATES = {"a": 100e9, "b": 110e9, "c": 130e9}


def judged(condition, *, who="a", rounds=None):
    """(holds, found) of one expectation over two rounds with sizes 862 (in one of them) and 512094."""
    if rounds is None:
        sizes = ({862: 10, 512094: 100}, {512094: 102})
        rounds = [
            made_round(i, "a", i, (40 + i) * 1e9, packet_sizes=packets(SIDE, "rx", held), kernel_log=[])
            for i, held in enumerate(sizes)
        ]
    states = {"a": made_state(), "b": made_state()}
    run = made_run(states, experiment={"name": "made", "compare": [["a", "b"]], "expect": [{who: condition}]})
    (one,) = make_report(run, rounds).data.expectations
    return one.holds, one.found


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({f"{SIDE}.rx.512094.packets": "> 100"}, True),
        ({f"{SIDE}.rx.512094.packets": "> 101"}, False),
        ({f"{SIDE}.rx.862.packets": "== 0"}, False),
        ({f"{SIDE}.rx.862.packets": "<= 5"}, True),
        ({f"{SIDE}.rx.999.packets": "== 0"}, True),
        ({f"{SIDE}.rx.512094.share": ">= 99.9%"}, True),
        ({f"{SIDE}.rx.999.share": "< 1%"}, True),
        ({f"{SIDE}.rx.largest_size": "== 512094"}, True),
        ({"bits_per_second": "> 40G"}, True),
        ({"bits_per_second": "!= 40G"}, False),
        ({"kernel_log": "== 0"}, True),
        ({"retransmits": "< 1"}, True),
    ],
)
def test_a_state_is_judged_by_its_figures(condition, holds):
    assert judged(condition)[0] is holds


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"cpu_s_per_gb": "< 1"}, "no round has this figure"),
        ({"client:veth0.rx.86.packets": "== 0"}, "no round has this figure"),
        ({"client:veth0.rx.86.share": "== 0"}, "no packets were counted there"),
    ],
)
def test_a_figure_that_was_not_measured_shows_nothing(condition, found):
    assert judged(condition) == (None, found)


@pytest.mark.parametrize(
    ("who", "condition", "holds"),
    [
        ("b / a", "> 1.05", True),
        ("b / a", "< 1.05", False),
        ("b / a", "> 1.10", None),
        ("a / b", "< 0.95", True),
    ],
)
def test_a_ratio_is_judged_by_its_whole_interval(who, condition, holds):
    rounds = blocks_of(["a", "b"], {"a": sample_with(8, 100e9, 1e9), "b": sample_with(8, 110e9, 1e9, 2)})
    assert judged({"bits_per_second": condition}, who=who, rounds=rounds)[0] is holds


def test_a_ratio_needs_no_comparison_of_its_own():
    values = {name: sample_with(8, mean, 1e9, seed) for seed, (name, mean) in enumerate(RATES.items())}
    run = made_run(
        {name: made_state() for name in RATES},
        experiment={"name": "made", "expect": [{"c / b": {"bits_per_second": "> 1.1"}}]},
    )
    (one,) = make_report(run, blocks_of(list(RATES), values)).data.expectations
    assert one.holds is True


def test_a_ratio_is_judged_on_each_kernel_by_its_own_rounds():
    gains = {"old": 1.0, "new": 1.2}
    places = product(range(8), gains, ("a", "b"))
    rounds = [
        made_round(
            number,
            state,
            block,
            (40e9 + number * 1e7) * (gains[kernel] if state == "b" else 1),
            kernel=kernel,
        )
        for number, (block, kernel, state) in enumerate(places)
    ]
    run = made_run(
        {"a": made_state(), "b": made_state()},
        experiment={"name": "made", "expect": [{"b / a": {"bits_per_second": "> 1.1"}}]},
        kernels={name: Kernel(release=name, version="#1") for name in gains},
    )
    found = make_report(run, rounds).data.expectations
    assert [(one.expectation, one.holds) for one in found] == [
        ("b / a: bits_per_second > 1.1 on old", False),
        ("b / a: bits_per_second > 1.1 on new", True),
    ]
    assert found[1].found.startswith("1.2003 [1.200")


def test_every_metric_of_a_report_may_be_expected():
    held = report_data(many_run(), map(Decoder(Round).decode, many_lines(3))).states["big-tcp"]
    assert {"noise.foreign", "cpu_s.testbed", key_of("server:veth0 rx bytes"), "tcp.pmtu"} <= held.keys()
    for key in held:
        name = f"{key}.packets" if packet_size(key) else str(key)
        assert metric_named(name.replace(" ", ".")) == (key, False)


def test_a_star_is_every_state():
    assert [one.state for one in parse([{"*": {"kernel_log": "== 0"}}], ["a", "b"])] == ["a", "b"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"c": {"retransmits": "< 1"}}, "'c' is not a state; the states are a, b"),
        ({"a / c": {"retransmits": "< 1"}}, "'c' is not a state"),
        ({"a": {"bits_per_secnd": "> 1"}}, "unknown metric 'bits_per_secnd', did you mean 'bits_per_second'"),
        ({"a": {f"{SIDE}.rx.862": "== 0"}}, "unknown metric"),
        ({"a": {"retransmits": "few"}}, "expected a condition such as"),
        ({"a": "retransmits"}, "expected a mapping"),
    ],
)
def test_what_cannot_be_expected_is_refused_in_words(entry, message):
    with pytest.raises(ValueError, match=message):
        parse([entry], ["a", "b"])


def test_names_of_devices_may_hold_dots():
    size = DeviceMetric("server", "eth0.100", "rx", 1514)
    assert metric_named("server:eth0.100.rx.1514.packets") == (size, False)
    assert metric_named("server:eth0.100.rx.1514.share") == (size, True)
    drops = DeviceMetric("server", "eth0.100", None, "drops")
    assert metric_named("server:eth0.100.drops") == (drops, False)
    assert [key_of(str(key)) for key in (size, drops)] == [size, drops]


def test_expectations_of_skipped_states_are_left_out_and_the_text_names_the_others():
    expect = [{"*": {"retransmits": "== 0"}}, {"a": {"bits_per_second": "> 2"}}]
    states = {"a": made_state(), "b": made_state()}
    run = made_run(states, experiment={"name": "made", "expect": expect}, skipped={"b": "no such MTU"})
    text = text_report(make_report(run, [made_round(0, "a", 0, 1.0)]))
    assert "NOT MET: a: bits_per_second > 2 (found mean 1)\nmet: a: retransmits == 0 (found 0)" in text
