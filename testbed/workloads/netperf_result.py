"""What netperf prints, as records. Pure.

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
_CLASSIC = re.compile(rb"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+\.\d+)\s+(\d+\.\d+)\s*$", re.MULTILINE)


def read(workload: Workload, output: bytes, options: NetperfOptions) -> Reading:
    """The figures that netperf printed, added to `workload`."""
    if options.classic:
        return _read_classic(workload, output)
    values = parse_keys(output)
    if any(key not in values for key in keys_of(options)):
        return Reading(workload, errors=_first_words(output))
    figures = _ping_pong(values, options) if options.ping_pong else _stream(values, options)
    reading = Reading(structs.replace(workload, **figures), float(values["ELAPSED_TIME"]))
    held, asked = figures["congestion"], options.congestion
    if held and asked and held != asked:
        # netperf says nothing when the kernel refuses the one that was asked for.
        return replace(reading, errors={"client": f"congestion control {asked} was refused, it used {held}"})
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


def _read_classic(workload: Workload, output: bytes) -> Reading:
    """The five columns of netperf's first tests.

    Receive socket, send socket, send message (bytes), elapsed (s), throughput (10^6 bit/s).
    """
    row = _CLASSIC.search(output)
    if row is None:
        return Reading(workload, errors=_first_words(output))
    receive, send, message, elapsed, throughput = (field.decode() for field in row.groups())
    rate = float(throughput) * _MEGABIT
    figures = {
        "bits_per_second": rate,
        "bytes": round(rate * float(elapsed) / 8),
        "sockets": _sockets(receive, send, message),
    }
    return Reading(structs.replace(workload, **figures), float(elapsed))


def parse_keys(output: bytes) -> dict[str, str]:
    """KEY -> value, from the lines that are KEY=value and nothing else."""
    lines = (line.partition("=") for line in output.decode(errors="replace").splitlines())
    return {key: value.strip() for key, equals, value in lines if equals and re.fullmatch(r"[A-Z0-9_]+", key)}


def _retransmits(values: Mapping[str, str], *ends: str) -> int | None:
    """netperf says -1 where it does not know."""
    counted = [int(values[f"{end}_TRANSPORT_RETRANS"]) for end in ends]
    return None if any(count < 0 for count in counted) else sum(counted)


def _sockets(receive: str, send: str, message: str) -> Sockets:
    return Sockets(receive=int(receive), send=int(send), message=int(message))


def _first_words(output: bytes) -> dict[str, str]:
    """netperf says what went wrong on stdout, or on stderr when this is empty."""
    lines = output.decode(errors="replace").strip().splitlines()
    return {"client": lines[0].strip()} if lines else {}
