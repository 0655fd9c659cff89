"""Read iperf3's JSON output into records. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from testbed.records.round import FlowFigures, Tuple, Udp, Workload
from testbed.workloads.flow import Reading, json_object

_Part = Mapping[str, Any]


def read(workload: Workload, client: bytes, server: bytes) -> Reading:
    """The client's figures added to `workload`, and the error messages of both ends."""
    results = {"client": json_object(client), "server": json_object(server)}
    errors = {role: _error(result) for role, result in results.items()}
    received = _received(results["client"])
    return Reading(
        workload=_filled(workload, results["client"]) if results["client"] else workload,
        measured_s=float(received[0].get("seconds", 0.0)) if received else 0.0,
        arrived=_arrived(results["client"]),
        errors={role: error for role, error in errors.items() if error},
    )


def _error(result: _Part) -> str | None:
    """libiperf's error message. Up to 3.12 only the JSON holds them, with exit status 0."""
    error = result.get("error")
    return None if error is None else str(error).removeprefix("error - ").strip()


def _filled(workload: Workload, result: _Part) -> Workload:
    """What arrived counts, summed over streams and directions."""
    received = _received(result)
    length, omitted, counted = _intervals(result)
    return structs.replace(
        workload,
        interval_s=length,
        intervals=counted,
        omitted_intervals=omitted,
        bits_per_second=sum(part["bits_per_second"] for part in received) if received else None,
        bytes=sum(part["bytes"] for part in received) if received else None,
        retransmits=_total(_sums(result, "sum_sent"), "retransmits"),
        congestion=result.get("end", {}).get("sender_tcp_congestion"),
        tuple=next(iter(_tuples(result).values()), None),
        udp=_udp(received),
        flows=_streams(result),
    )


def _arrived(result: _Part) -> dict[str, int]:
    """Which end received how much."""
    reverse = result.get("start", {}).get("test_start", {}).get("reverse")
    ends = ("client", "server") if reverse else ("server", "client")
    return {end: int(part["bytes"]) for end, part in zip(ends, _received(result), strict=False)}


def _intervals(result: _Part) -> tuple[float | None, list[float], list[float]]:
    """The length of the intervals in seconds, and bit/s in the warm-up intervals and in the others.

    The figures are the client's own: what it sent, or with -R what it got; both with --bidir. A rest
    at the end that is no whole interval is left out: it says as much of the clock as of the flow.
    """
    intervals = [part for part in result.get("intervals") or [] if "sum" in part]
    if not intervals:
        return None, [], []
    length = max(part["sum"]["seconds"] for part in intervals)
    rates: dict[bool, list[float]] = {True: [], False: []}
    for part in intervals:
        if part["sum"]["seconds"] > 0.9 * length:
            ways = [part[key] for key in ("sum", "sum_bidir_reverse") if key in part]
            rates[bool(part["sum"].get("omitted"))].append(sum(way["bits_per_second"] for way in ways))
    return round(length, 3), rates[True], rates[False]


def _received(result: _Part) -> list[_Part]:
    # Before 3.15 or so a UDP test has one `sum`, with the receiver's losses taken off below.
    return _sums(result, "sum_received") or _sums(result, "sum")


def _sums(result: _Part, name: str) -> list[_Part]:
    """The sums of that name: one, or two with --bidir."""
    end = result.get("end", {})
    return [end[key] for key in (name, f"{name}_bidir_reverse") if end.get(key)]


def _total(parts: Sequence[_Part], key: str) -> int | None:
    counted = [part[key] for part in parts if key in part]
    return sum(counted) if counted else None


def _udp(received: Sequence[_Part]) -> Udp | None:
    if not received or "lost_packets" not in received[0]:
        return None
    packets = sum(part["packets"] for part in received)
    lost = sum(part["lost_packets"] for part in received)
    return Udp(packets=packets, lost=lost, jitter_us=max(part["jitter_ms"] for part in received) * 1000)


def _streams(result: _Part) -> list[FlowFigures]:
    """Figures of each stream, in iperf3's order."""
    tuples = _tuples(result)
    figures = []
    for stream in result.get("end", {}).get("streams", []):
        arrived = stream.get("receiver") or stream.get("udp") or {}
        sent = stream.get("sender") or {}
        figures.append(
            FlowFigures(
                tool="iperf3",
                bits_per_second=arrived.get("bits_per_second"),
                retransmits=sent.get("retransmits"),
                tuple=tuples.get(arrived.get("socket", -1)),
            )
        )
    return figures


def _tuples(result: _Part) -> dict[int, Tuple]:
    """libiperf's number of a stream's socket -> its addresses and ports."""
    return {
        stream["socket"]: Tuple(
            source=stream["local_host"],
            source_port=stream["local_port"],
            destination=stream["remote_host"],
            destination_port=stream["remote_port"],
        )
        for stream in result.get("start", {}).get("connected", [])
    }
