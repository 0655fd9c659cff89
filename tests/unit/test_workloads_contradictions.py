"""Figures that cannot be true by our clock, and those that can."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.clocks import Moment
from testbed.workloads.contradictions import Claim, Span, contradictions

SPAN = Span(Moment(100.0, 1e9), Moment(111.0, 1e9 + 11))
CLAIM = Claim(tool="tool", requested_s=10, seconds=10.0, bits_per_second=8e9, octets=10**10)
RR = replace(
    CLAIM,
    bits_per_second=16e4,
    octets=200_000,
    transactions_per_second=10_000.0,
    latency_us={"min": 50, "mean": 99.0, "p50": 90, "p90": 120, "p99": 300, "max": 9000, "stddev": 12.0},
)


def latency(**changed: float) -> Claim:
    return replace(RR, latency_us={**(RR.latency_us or {}), **changed})


@pytest.mark.parametrize("claim", [CLAIM, RR, replace(CLAIM, octets=None)])
def test_what_can_be_true(claim):
    assert contradictions(claim, SPAN) == []


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (replace(CLAIM, seconds=-3590.0), "measured for -3590 s, and was asked for 10 s"),
        (replace(CLAIM, seconds=0.0, requested_s=0.1), "measured for 0 s"),
        (replace(CLAIM, seconds=8.0, octets=8 * 10**9), "measured for 8 s, and was asked for 10 s"),
        (replace(CLAIM, seconds=11.1), "measured for 11.1 s, and was there for 11.000 s"),
        (replace(CLAIM, bits_per_second=-1.0), "counted 10000000000 bytes at -1 bit/s"),
        (replace(CLAIM, bits_per_second=float("nan")), "gave a figure that is not a number"),
        (latency(p99=float("inf")), "gave a figure that is not a number"),
        (replace(CLAIM, bits_per_second=16e9), "its rate of 1.6e+10 bit/s over 10 s is 20000000000"),
        (replace(CLAIM, octets=10**9), "counted 1000000000 bytes, and its rate of 8e+09 bit/s"),
        (latency(max=694_967_304), "the max latency is 6.94967e+08 us, in a test of 11.000 s"),
        (latency(min=-1), "the min latency is -1 us"),
        (latency(p50=4000), "the p50 latency is 4000 us and the p90 120 us"),
        (latency(mean=300.0), "waited for 300 us each, which is 30.00 s in 10 s"),
    ],
)
def test_what_cannot(claim, words):
    (found,) = contradictions(claim, SPAN)
    assert found.startswith("client: tool ")
    assert words in found


@pytest.mark.parametrize(("wall_clock", "found"), [(True, 1), (False, 0)])
def test_a_step_matters_to_a_tool_that_measures_by_the_wall_clock(wall_clock, found):
    """Forward by less than the client's start and end take: the time it gives is possible."""
    span = Span(Moment(100.0, 1e9), Moment(111.0, 1e9 + 11.5))
    begun = contradictions(replace(CLAIM, wall_clock=wall_clock, seconds=10.5, octets=None), span)
    assert len(begun) == found
    assert all("wall clock, which was set forward by 0.500 s during the test" in words for words in begun)


def test_requests_beside_each_other_wait_longer_together_than_the_test():
    claim = replace(latency(mean=900.0, max=90_000), outstanding=9)
    assert contradictions(claim, SPAN) == []


@given(
    asked=st.integers(1, 100),
    before=st.floats(0, 2),
    after=st.floats(0, 5),
    rate=st.floats(1e3, 1e12),
    printed=st.integers(0, 3),
)
def test_an_honest_tool_is_believed(asked, before, after, rate, printed):
    """It measures for what it was asked, and prints with few decimals."""
    claim = Claim(
        tool="tool",
        requested_s=asked,
        seconds=round(asked + after / 9, printed),
        bits_per_second=rate,
        octets=int(rate * (asked + after / 9) / 8),
        resolution_s=0.5 * 10**-printed,
    )
    span = Span(Moment(0, 0), Moment(before + asked + after, before + asked + after))
    assert contradictions(claim, span) == []
