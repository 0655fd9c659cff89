"""Read the output of kperf's client into records. Pure.

Two sections, the source's and the target's, each with a line per flow and direction,
TCP's state under a line of names, and the CPU of the core that serves the flow (net)
and of the one that the worker runs on (app) where the two are distinguished.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from msgspec import convert, structs

from testbed.records.round import CoreUse, Tcp, Workload
from testbed.workloads.flow import Reading

_RATE = re.compile(r"\b(Tx|Rx)\s*(\d+\.\d+) Gbps \((\d+) bytes in (\d+) usec\)")
_TCP_NAMES = re.compile(r"\bTCP((?: \w+)+)\s*$")
_NUMBERS = re.compile(r"(?:^|:)((?:\s+\d+)+)\s*$")
_CPU = re.compile(
    r"(?P<which>net |app |)CPU\s*\d+: usr:\s*(?P<user>[\d.]+)% sys:\s*(?P<system>[\d.]+)%"
    r" idle:\s*(?P<idle>[\d.]+)% iow:\s*(?P<iowait>[\d.]+)% irq:\s*(?P<irq>[\d.]+)%"
    r" sirq:\s*(?P<softirq>[\d.]+)%"
)
# kperf's names -> ours.
_TCP = {
    "retrans": "retrans",
    "reord": "reord_seen",
    "rtt": "rtt_us",
    "rttvar": "rttvar_us",
    "d_ce": "delivered_ce",
    "snd_wnd": "snd_wnd",
    "cwnd": "snd_cwnd",
}


@dataclass
class Section:
    """One end: bytes in each direction, the time of the test, TCP's state of the first flow, its cores."""

    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    tcp: dict[str, int] = field(default_factory=dict)
    cores: dict[str, CoreUse] = field(default_factory=dict)


def read(workload: Workload, output: bytes) -> Reading:
    """The figures of what arrived at the target, and TCP's state and the cores of both ends."""
    sections = parse(output.decode(errors="replace"))
    if len(sections) != 2 or not sections[1].seconds:
        lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
        return Reading(workload, errors={"client": lines[-1]} if lines else {})
    source, target = sections
    figures = {
        "bits_per_second": target.received * 8 / target.seconds,
        "bytes": target.received,
        "retransmits": source.tcp.get("retrans"),
        "tcp": convert(source.tcp, Tcp),
        "cores": {
            f"{end} {which}": use
            for end, section in (("source", source), ("target", target))
            for which, use in section.cores.items()
        },
    }
    return Reading(structs.replace(workload, **figures), target.seconds, arrived={"server": target.received})


def parse(text: str) -> list[Section]:
    """The sections in the order in which they are printed."""
    sections: list[Section] = []
    names: list[str] = []
    for line in text.splitlines():
        if "== " in line:
            sections.append(Section())
        elif sections:
            names = _take(line, sections[-1], names)
    return sections


def _take(line: str, section: Section, names: list[str]) -> list[str]:
    """Add what `line` says to `section`; the names of the numbers that the next line may hold."""
    if rate := _RATE.search(line):
        direction, _, octets, microseconds = rate.groups()
        section.seconds = int(microseconds) / 1e6
        if direction == "Tx":
            section.sent += int(octets)
        else:
            section.received += int(octets)
    elif header := _TCP_NAMES.search(line):
        return header[1].split()
    elif cpu := _CPU.search(line):
        use = {name: float(value) for name, value in cpu.groupdict().items() if name != "which"}
        section.cores[cpu["which"].strip() or "net"] = CoreUse(**use)
    elif names and not section.tcp and (numbers := _NUMBERS.search(line)):
        values = dict(zip(names, map(int, numbers[1].split()), strict=False))
        section.tcp = {_TCP[name]: value for name, value in values.items() if name in _TCP}
        return names
    return []
