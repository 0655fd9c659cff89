"""Read netperf's output into records. Pure.

`-- -k KEY,...` makes it print one KEY=value a line. An unknown key is an error
of netperf's, so a result either holds every key that was asked for, or is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from testbed.records.round import Sockets, Workload
from testbed.workloads.flow import Reading
from testbed.workloads.netperf_options import LATENCY, RECEIVES, SENDS, NetperfOptions, keys_of

_MEGABIT = 1e6
RESOLUTION_S = 0.005  # it prints two decimals
_CLASSIC = re.compile(rb"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+\.\d+)\s+(\d+\.\d+)\s*$", re.MULTILINE)


def read(workload: Workload, output: bytes, options: NetperfOptions) -> Reading:
    """The figures that netperf printed, added to `workload`."""
    if options.classic:
        return _read_classic(workload, output)
    values = parse_keys(output)
    if any(key not in values for key in keys_of(options)):
        return Reading(workload, errors=_first_words(output))
    figures = _ping_pong(values, options) if options.ping_pong else _stream(values, options)
    seconds = float(values["ELAPSED_TIME"])
    reading = Reading(
        structs.replace(workload, **figures),
        seconds,
        RESOLUTION_S,
        arrived=_arrived(values, options),
        least_packets=_least_packets(float(values["THROUGHPUT"]), seconds, options),
    )
    used, requested = figures["congestion"], options.congestion
    if used and requested and used != requested:
        # netperf says nothing when the kernel refuses the one that was asked for.
        return replace(
            reading, errors={"client": f"congestion control {requested} was refused, it used {used}"}
        )
    return reading


def _ping_pong(values: Mapping[str, str], options: NetperfOptions) -> dict[str, Any]:
    rate = float(values["THROUGHPUT"])
    return {
        "transactions_per_second": rate,
        "bits_per_second": rate * (options.request + options.response) * 8,
        "bytes": int(values["LOCAL_BYTES_SENT"]) + int(values["LOCAL_BYTES_RECVD"]),
        "latency_us": {name: float(values[key]) for name, key in LATENCY.items()},
        "retransmits": _retransmits(values, "LOCAL", "REMOTE"),
        "congestion": values["LOCAL_CONG_CONTROL"] or None,
    }


def _stream(values: Mapping[str, str], options: NetperfOptions) -> dict[str, Any]:
    send, receive, message, _, received = SENDS if options.sends else RECEIVES
    sender = "LOCAL" if options.sends else "REMOTE"
    return {
        "bits_per_second": float(values["THROUGHPUT"]) * _MEGABIT,
        "bytes": int(values[received]),
        "sockets": _sockets(values[receive], values[send], values[message]),
        "retransmits": _retransmits(values, sender),
        "congestion": values[f"{sender}_CONG_CONTROL"] or None,
    }


def _arrived(values: Mapping[str, str], options: NetperfOptions) -> dict[str, int]:
    """Which end received how much. What one end sent in requests or responses, the other received."""
    if options.ping_pong:
        return {"server": int(values["LOCAL_BYTES_SENT"]), "client": int(values["LOCAL_BYTES_RECVD"])}
    received = SENDS[-1] if options.sends else RECEIVES[-1]
    return {"server" if options.sends else "client": int(values[received])}


def _least_packets(rate: float, seconds: float, options: NetperfOptions) -> dict[str, int]:
    """A request that waits for no other takes a packet of its own, and so does its response."""
    if not options.ping_pong or options.burst:
        return {}
    exchanges = int(rate * max(0.0, seconds - RESOLUTION_S))
    return {"server": exchanges, "client": exchanges}


def _read_classic(workload: Workload, output: bytes) -> Reading:
    """The five columns of netperf's first tests.

    Receive socket, send socket, send message (bytes), elapsed (s), throughput (10^6 bit/s).
    """
    row = _CLASSIC.search(output)
    if row is None:
        return Reading(workload, errors=_first_words(output))
    receive, send, message, elapsed, throughput = (field.decode() for field in row.groups())
    rate = float(throughput) * _MEGABIT
    octets = round(rate * float(elapsed) / 8)
    figures = {
        "bits_per_second": rate,
        "bytes": octets,
        "sockets": _sockets(receive, send, message),
    }
    return Reading(
        structs.replace(workload, **figures), float(elapsed), RESOLUTION_S, arrived={"server": octets}
    )


def parse_keys(output: bytes) -> dict[str, str]:
    """KEY -> value, from the lines that are KEY=value and nothing else."""
    lines = (line.partition("=") for line in output.decode(errors="replace").splitlines())
    return {key: value.strip() for key, equals, value in lines if equals and re.fullmatch(r"[A-Z0-9_]+", key)}


def _retransmits(values: Mapping[str, str], *ends: str) -> int | None:
    """Retransmissions; None where netperf prints -1 (unknown)."""
    counted = [int(values[f"{end}_TRANSPORT_RETRANS"]) for end in ends]
    return None if any(count < 0 for count in counted) else sum(counted)


def _sockets(receive: str, send: str, message: str) -> Sockets:
    return Sockets(receive=int(receive), send=int(send), message=int(message))


def _first_words(output: bytes) -> dict[str, str]:
    """netperf says what went wrong on stdout, or on stderr when this is empty."""
    lines = output.decode(errors="replace").strip().splitlines()
    return {"client": lines[0].strip()} if lines else {}
