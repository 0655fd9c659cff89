"""One rule for each unit, as docs/units.md says it."""

import re
from pathlib import Path

import pytest

from testbed.analysis.expect import parse
from testbed.capabilities import parse_requirement
from testbed.units import (
    parse_bytes,
    parse_count,
    parse_microseconds,
    parse_nanoseconds,
    parse_rate,
    parse_seconds,
    parse_share,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "units.md"
PARSERS = {
    "Bytes": parse_bytes,
    "Bits per second": parse_rate,
    "Times": parse_seconds,
    "Shares": parse_share,
    "Counts": parse_count,
}


def rows():
    title = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif (match := re.fullmatch(r"\| (\S+) \| ([\d.]+) \|", line)) and title:
            yield title, match[1], float(match[2])


def test_the_reference_has_examples_of_every_kind():
    assert {title for title, _, _ in rows()} == PARSERS.keys()


@pytest.mark.parametrize(("title", "written", "value"), list(rows()))
def test_the_reference_is_what_the_parser_does(title, written, value):
    assert PARSERS[title](written) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("parser", "written", "says"),
    [
        (parse_bytes, "big", "expected a size in bytes such as 131072, 128K or 1M, got 'big'"),
        (parse_bytes, -1, "got -1"),
        (parse_bytes, True, "got True"),
        (parse_bytes, "1.5", "a whole number of them, got '1.5'"),
        (parse_bytes, "9" * 5000, "expected a size in bytes"),
        (parse_bytes, "1e300", "too large"),
        (parse_bytes, "1Mbit", "expected a size in bytes"),
        (parse_rate, "1gb", "expected a rate in bits per second such as 500M, 10G or 1gbit, got '1gb'"),
        (parse_rate, "", "got ''"),
        (parse_seconds, "soon", "expected a time such as 10s, 250ms, 5m or 1.5h, got 'soon'"),
        (parse_seconds, "10M", "expected a time"),
        (parse_seconds, float("inf"), "expected a time"),
        (parse_seconds, float("nan"), "expected a time"),
        (parse_nanoseconds, "10", "expected a time with its unit such as 10ms, got '10'"),
        (parse_nanoseconds, 10, "expected a time with its unit such as 10ms, got 10"),
        (parse_share, "some", "expected a share such as 1% or 0.01, got 'some'"),
        (parse_count, "5%", "expected a number such as 10, 5K or 1.5M, got '5%'"),
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(parser, written, says):
    with pytest.raises(ValueError) as error:
        parser(written)
    assert says in str(error.value)


def test_times_of_other_units():
    assert [parse_nanoseconds(text) for text in ("10ms", "1s", "0", 0)] == [10_000_000, 10**9, 0, 0]
    assert [parse_microseconds(text) for text in (100, "1ms", "50us")] == [100, 1000, 50]


@pytest.mark.parametrize(
    ("metric", "condition", "bound"),
    [
        ("bytes", "> 1M", 1 << 20),
        ("n:d.rx.largest_size", "<= 64K", 65536),
        ("n:d.rx.bytes", "> 1G", 1 << 30),
        ("n:d.rx.862.packets", "< 1K", 1000),
        ("bits_per_second", "> 40G", 40e9),
        ("retransmits", "< 1K", 1000),
        ("tcp.rtt_us", "< 1ms", 1000),
        ("tcp.rtt_us", "< 80", 80),
        ("latency_us.p99", "< 1ms", 1000),
        ("overhead_s", "< 100ms", 0.1),
        ("n:d.rx.862.share", "< 0.02%", 0.0002),
        ("noise.steal", "< 1%", 1),
        ("cpu.app.system", "> 90%", 90),
        ("cpu.app.system", "> 90", 90),
    ],
)
def test_an_expectation_reads_its_bound_in_the_metrics_unit(metric, condition, bound):
    (one,) = parse([{"a": {metric: condition}}], ["a"])
    assert one.bound == pytest.approx(bound)


def test_the_bound_of_a_ratio_has_no_unit():
    (one,) = parse([{"a / b": {"bytes": "> 102%"}}], ["a", "b"])
    assert one.bound == pytest.approx(1.02)
    with pytest.raises(ValueError, match="expected a number"):
        parse([{"a / b": {"bytes": "> 2kb"}}], ["a", "b"])


def test_a_requirement_in_bytes_may_have_a_suffix():
    assert parse_requirement(">= 512K").value == 524288
    assert parse_requirement("< 7.3").value == "7.3"
