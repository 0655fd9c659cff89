"""What packets that were not seen leave open, and what a state's figures were held against."""

import pytest
from made_rounds import made_round, made_run, made_state, packets

from testbed.analysis.report import make_report
from testbed.analysis.sureness import kind_of
from testbed.records.round import Agreement, ClockStep, Cpu, PacketSizesMeta, Unseen
from testbed.reports.html import html_report
from testbed.reports.markdown import markdown_report
from testbed.reports.text import text_report

SIDE = "server:veth0"
RX = f"{SIDE} rx"
UNSEEN = {RX: Unseen.of(3, 4000, 10_003, 100_000_000)}


def meta(unseen=None):
    return PacketSizesMeta(collector="bpf", unseen=unseen or {})


def report(sizes, unseen, expect=None, **fields):
    """Of one round for each of `sizes`, those at the places in `unseen` with three packets unseen."""
    rounds = [
        made_round(
            i,
            "a",
            i,
            packet_sizes=packets(SIDE, "rx", held),
            packet_sizes_meta=meta(UNSEEN if i in unseen else None),
            **fields,
        )
        for i, held in enumerate(sizes)
    ]
    asked = [{"a": expect}] if expect else []
    return make_report(made_run({"a": made_state()}, experiment={"name": "made", "expect": asked}), rounds)


SEEN = [{862: 10, 1514: 10_000}, {862: 10, 1514: 10_000}]


@pytest.mark.parametrize(
    ("what", "condition", "unseen", "holds"),
    [
        ("999.packets", "== 0", [], True),
        ("999.packets", "== 0", [1], None),
        ("999.packets", "== 0", [0, 1], None),
        ("862.packets", "== 0", [1], False),  # ten were seen: no other packet takes them away
        ("862.packets", "== 14", [0, 1], False),  # ten seen and three unseen are no fourteen
        ("862.packets", "== 13", [0, 1], None),
        ("862.packets", "== 10", [1], None),
        ("862.packets", "!= 0", [0, 1], True),
        ("862.packets", "!= 11", [0], None),
        ("862.packets", "!= 10", [0], False),  # the other round saw all, and ten
        ("999.packets", "<= 0", [0], None),
        ("999.packets", "< 2", [0], True),  # 1.5 on average at most
        ("862.packets", "> 11", [0, 1], None),
        ("999.share", "== 0", [0], None),
        ("999.share", "< 1%", [0], True),
        ("1514.share", "> 99%", [0], True),
        ("packets", "== 10010", [0], None),
        ("bytes", "!= 0", [0, 1], True),
        ("largest_size", "== 1514", [0], None),
        ("largest_size", "!= 3900", [0], None),
        ("largest_size", "!= 9000", [0], True),
        ("largest_size", "< 3900", [0], True),  # by the packets that were seen
        ("9000.packets", "== 0", [0, 1], True),  # nor have they room for one of these
        ("3000.packets", "== 2", [0, 1], False),
        ("largest_size", "> 1000", [0], True),
        ("mean_size", "> 1000", [0], True),
        ("mean_size", "== 1514", [0, 1], None),
    ],
)
def test_a_claim_that_unseen_packets_could_change_is_not_decided(what, condition, unseen, holds):
    (one,) = report(SEEN, unseen, {f"{RX.replace(' ', '.')}.{what}": condition}).data.expectations
    assert one.holds is holds


def test_unseen_packets_of_another_side_change_nothing():
    rounds = [
        made_round(
            0,
            "a",
            0,
            packet_sizes=packets(SIDE, "rx", {1514: 10}),
            packet_sizes_meta=meta({f"{SIDE} tx": Unseen.of(1, 66, 1000, 66_000)}),
        )
    ]
    run = made_run(
        {"a": made_state()},
        experiment={"name": "made", "expect": [{"a": {f"{SIDE}.rx.999.packets": "== 0"}}]},
    )
    assert [one.holds for one in make_report(run, rounds).data.expectations] == [True]


def test_it_says_why_and_what_to_do():
    (one,) = report(SEEN, [1], {f"{SIDE}.rx.999.packets": "== 0"}).data.expectations
    assert one.found == (
        "0; not decided: 3 packets at server:veth0 rx were not seen, in 1 of 2 rounds. "
        "Run it with `protocol: {unseen: 0}`, which runs such rounds again"
    )


def test_sizes_are_printed_with_how_much_was_unseen():
    seen = report(SEEN, [1])
    words = "in 1 of 2 rounds, at most 0.03% of server:veth0 rx"
    for made in (text_report, markdown_report, html_report):
        assert words in made(seen)
        assert "packets not seen" not in made(report(SEEN, []))
    unseen = seen.data.sureness["a"].unseen
    assert (unseen.rounds, unseen.side) == (1, RX)
    assert unseen.share == pytest.approx(3 / 10_003)


def checked_round(number, **fields):
    agreement = Agreement(tool_over_devices=0.95 + number / 100, sockets_over_tool=0.99)
    known = {"agreement": agreement, "cpu": Cpu(core_s=2.0, accounted=0.97 + number / 100)}
    return made_round(number, "a", number, **(known | fields))


def test_a_line_is_enough_where_all_agree():
    made = make_report(made_run({"a": made_state()}), [checked_round(number) for number in range(3)])
    one = made.data.sureness["a"]
    assert one.agrees
    assert (one.tool_over_devices, one.sockets_over_tool) == (0.97, 0.99)
    assert (one.cpu_accounted.least, one.cpu_accounted.median) == (97, 98)
    line = (
        "Checks: all 3 rounds valid; no packets unseen, no clock steps; bytes tool / devices "
        "at most 97.0%; bytes sockets / tool at most 99.0%; at least 97% of the cores' time accounted for."
    )
    assert line in markdown_report(made)
    assert line in html_report(made).replace("&#39;", "'")
    assert "Checks: all 3 rounds" in text_report(made)


@pytest.mark.parametrize(
    ("fields", "cell"),
    [
        ({"valid": False, "reason": "noise: steal 7.1% is above the limit of 5.0%"}, "| a | 2 | 1 |"),
        ({"clock_steps": [ClockStep(at_s=0.5, by_s=-3600.0)]}, "| a | 3 | 0 | 0 | 1 |"),
        ({"packet_sizes_meta": meta(UNSEEN)}, "| a | 3 | 0 | 0.03% (1) | 0 |"),
        ({"cpu": Cpu(core_s=2.0, accounted=0.5)}, "| 50 to 98% |"),
    ],
)
def test_a_table_where_something_does_not(fields, cell):
    rounds = [checked_round(0), checked_round(1), checked_round(2, **fields)]
    made = make_report(made_run({"a": made_state()}), rounds)
    assert cell in markdown_report(made)
    assert "Checks: rounds that count" in " ".join(text_report(made).split())
    assert "sockets/tool" in html_report(made)
    assert not made.data.sureness["a"].agrees


def test_reasons_are_counted_by_their_kind():
    assert kind_of("noise: steal 7.1% is above the limit of 5.0%; noise: foreign 12%") == "noise: steal"
    assert kind_of("packet sizes: 3 packets, 200 bytes not seen at a:b rx") == "packet sizes"
    assert kind_of(None) == "no reason recorded"
    assert kind_of("3 flows failed") == "3 flows failed"
