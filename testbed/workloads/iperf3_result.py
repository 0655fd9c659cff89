"""What iperf3's JSON says, as records. Pure: from the text that libiperf printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from testbed.experiments.records import Tuple, Workload


def parse_result(text: bytes) -> dict[str, Any]:
    """The JSON object that one end printed; empty when it printed none, or not all of it."""
    try:
        result = json.loads(text)
    except ValueError:
        return {}
    return result if isinstance(result, dict) else {}


def error_of(result: Mapping[str, Any]) -> str | None:
    """libiperf's own words about what went wrong. Up to 3.12 only the JSON holds them."""
    error = result.get("error")
    return None if error is None else str(error).removeprefix("error - ").strip()


def measured_seconds(result: Mapping[str, Any]) -> float:
    """The receiver's seconds that count, without the omitted ones."""
    return float(_received(result)[0].get("seconds", 0.0)) if _received(result) else 0.0


def fill(workload: Workload, result: Mapping[str, Any]) -> Workload:
    """`workload` with the client's figures. What arrived counts, summed over streams and directions."""
    received, sent = _received(result), _sent(result)
    end = result.get("end", {})
    return workload.model_copy(
        update={
            "version": str(result.get("start", {}).get("version", "")).removeprefix("iperf "),
            "bits_per_second": sum(part["bits_per_second"] for part in received) if received else None,
            "bytes": sum(part["bytes"] for part in received) if received else None,
            "retransmits": _total(sent, "retransmits"),
            "congestion": end.get("sender_tcp_congestion"),
            "tuple": _tuple(result),
        }
    )


def _received(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    end = result.get("end", {})
    names = ("sum_received", "sum_received_bidir_reverse")
    parts = [end[name] for name in names if end.get(name)]
    return parts or [end[name] for name in ("sum", "sum_bidir_reverse") if end.get(name)]


def _sent(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    end = result.get("end", {})
    return [end[name] for name in ("sum_sent", "sum_sent_bidir_reverse") if end.get(name)]


def _total(parts: list[Mapping[str, Any]], key: str) -> int | None:
    counted = [part[key] for part in parts if key in part]
    return sum(counted) if counted else None


def _tuple(result: Mapping[str, Any]) -> Tuple | None:
    connected = result.get("start", {}).get("connected")
    if not connected:
        return None
    first = connected[0]
    return Tuple(
        source=first["local_host"],
        source_port=first["local_port"],
        destination=first["remote_host"],
        destination_port=first["remote_port"],
    )
