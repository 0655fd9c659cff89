"""Find figures of a tool that contradict each other or our clock. Pure.

Each rule is an inequality that no honest test can break, with a tolerance for
how coarsely the figures are printed and for what the tool does at its ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from testbed import clocks
from testbed.clocks import Moment

# Clocks of one machine run at one rate; a tool may read its own before we see it start or end.
_CLOCK_RATE = 0.001
# The receiver may begin to count later than the sender, and stop before it, by as long as a busy machine
# keeps it from the CPU: 0.3 s of a test of one second were seen with two busy loops on two cores.
_LATE_S = 0.4
_SHORT = 0.1
# A rate, bytes and a time that belong together differ by their rounding, and by the ends of several streams.
_ROUNDING = 0.05
# netperf's percentiles come from buckets, whose width grows with the latency.
_BUCKET = 0.25
_BUCKET_US = 16


@dataclass(frozen=True)
class Span:
    """From the client's start line until both ends of the flow were seen to have ended."""

    begun: Moment
    ended: Moment

    @property
    def seconds(self) -> float:
        return self.ended.monotonic - self.begun.monotonic


@dataclass(frozen=True)
class Claim:
    """What a tool says of its flow. `resolution_s`: how coarsely it prints its time.

    `wall_clock`: it measures by the wall clock. `outstanding`: requests that wait at the same time.
    """

    tool: str
    requested_s: float
    seconds: float
    bits_per_second: float
    octets: int | None = None
    transactions_per_second: float | None = None
    latency_us: Mapping[str, float] | None = None
    resolution_s: float = 0.0
    wall_clock: bool = False
    outstanding: int = 1


def contradictions(claim: Claim, span: Span) -> list[str]:
    """The reasons why the figures of `claim` cannot be true; none where they can."""
    return [f"client: {claim.tool} {message}" for message in _contradictions(claim, span)]


def _contradictions(claim: Claim, span: Span) -> Iterator[str]:
    figures = [claim.seconds, claim.bits_per_second, claim.transactions_per_second or 0.0]
    if not all(map(math.isfinite, [*figures, *(claim.latency_us or {}).values()])):
        yield "gave a figure that is not a number"
        return
    step = span.ended.step_since(span.begun)
    if claim.wall_clock and step:
        yield f"measures by the wall clock, which was {clocks.in_words(step)} during the test"
    if wrong := _wrong_time(claim, span):
        yield wrong
        return  # the rest is derived from it
    if claim.bits_per_second < 0 or (claim.octets or 0) < 0:
        yield f"counted {claim.octets} bytes at {claim.bits_per_second:g} bit/s"
    elif claim.octets is not None:
        by_rate = claim.bits_per_second * claim.seconds / 8
        slack = _ROUNDING + claim.resolution_s / claim.seconds
        if abs(by_rate - claim.octets) > slack * max(by_rate, claim.octets) + 10_000:
            yield (
                f"counted {claim.octets} bytes, and its rate of {claim.bits_per_second:g} bit/s "
                f"over {claim.seconds:g} s is {by_rate:.0f}"
            )
    yield from _wrong_latency(claim, span)


def _wrong_time(claim: Claim, span: Span) -> str | None:
    longest = span.seconds * (1 + _CLOCK_RATE) + claim.resolution_s
    if claim.seconds > longest:
        return f"says that it measured for {claim.seconds:g} s, and was there for {span.seconds:.3f} s"
    if claim.seconds < claim.requested_s * (1 - _SHORT) - _LATE_S or claim.seconds <= 0:
        return (
            f"says that it measured for {claim.seconds:g} s, and was asked for {claim.requested_s:g} s "
            f"(it was there for {span.seconds:.3f} s)"
        )
    return None


def _wrong_latency(claim: Claim, span: Span) -> Iterator[str]:
    found = claim.latency_us or {}
    longest = span.seconds * (1 + _CLOCK_RATE) * 1e6
    for name, value in found.items():
        if not 0 <= value <= longest:
            yield f"says that the {name} latency is {value:g} us, in a test of {span.seconds:.3f} s"
            return
    ranks = [(name, found[name]) for name in ("min", "p50", "p90", "p99", "max") if name in found]
    for (low, lower), (high, higher) in pairwise(ranks):
        if lower > higher * (1 + _BUCKET) + _BUCKET_US:
            yield f"says that the {low} latency is {lower:g} us and the {high} {higher:g} us"
    if claim.transactions_per_second and "mean" in found:
        # Requests that wait one after the other cannot together have waited longer than the test.
        waited = claim.transactions_per_second * claim.seconds * found["mean"] / 1e6 / claim.outstanding
        if waited > claim.seconds * (1 + _ROUNDING) + claim.resolution_s:
            yield (
                f"says that {claim.transactions_per_second:g} requests a second waited for "
                f"{found['mean']:g} us each, which is {waited:.2f} s in {claim.seconds:g} s"
            )
