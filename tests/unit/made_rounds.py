"""Rounds and runs made by hand for the report tests: figures in, records out."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import convert

from testbed.records.round import PacketSize, PacketSizesMeta, Round, Workload
from testbed.records.run import Kernel, Machine, Run

KERNEL = "6.18.5"
VETH = {"client:veth0": {"mtu": 1500, "gso_max_size": 524280}, "server:veth0": {"mtu": 1500}}


def made_run(states: dict[str, dict[str, Any]], **fields: Any) -> Run:
    """A complete run of `states` (name -> resolved state)."""
    first, *others = states
    body: dict[str, Any] = {
        "schema": 1,
        "run_id": "20261130T101500Z-made",
        "experiment": {"name": "made", "compare": [[first, other] for other in others]},
        "topology": {},
        "status": "complete",
        "started": "2026-11-30T10:15:00Z",
        "seed": 7,
        "argv": ["testbed", "run", "made"],
        "machine": Machine(cpu_model="Test CPU", cores=2),
        "kernels": {KERNEL: Kernel(release=KERNEL, version="#1 SMP")},
        "tools": {"iperf3": "3.18"},
        "states": states,
    }
    return Run.model_validate(body | fields)


def made_state(
    settings: dict[str, Any] | None = None, cpus: dict[str, list[int]] | None = None, **workload: Any
) -> dict[str, Any]:
    """A resolved state with an iperf3 flow from client to server."""
    options = {"tool": "iperf3", "from": "client", "to": "server", "family": 6, "duration": 3.0, **workload}
    return {"workload": options, "settings": settings or {}, "cpus": cpus or {}, "kernel": None}


def made_round(number: int, state: str, block: int, bits: float | None = 1e9, **fields: Any) -> Round:
    """A valid round of one second with `bits` a second."""
    workload = Workload(
        tool="iperf3", version="3.18", bits_per_second=bits, congestion="cubic", retransmits=0
    )
    body: dict[str, Any] = {
        "round": number,
        "block": block,
        "position": 0,
        "state": state,
        "kernel": KERNEL,
        "started": "2026-11-30T10:15:00Z",
        "ended": "2026-11-30T10:15:01Z",
        "measured_s": 1.0,
        "wall_s": 1.4,
        "workload": workload,
        "packet_sizes_meta": PacketSizesMeta(collector="bpf"),
    }
    return convert(body | fields, Round, from_attributes=True)


def packets(place: str, direction: str, sizes: dict[int, int], **fields: Any) -> list[PacketSize]:
    """Rows of packet sizes of one side: size -> packets of the measured seconds."""
    node, device = place.split(":")
    return [
        convert(
            {"node": node, "device": device, "direction": direction, "size": size, "packets": count} | fields,
            PacketSize,
        )
        for size, count in sizes.items()
    ]


def blocks_of(states: Sequence[str], values: dict[str, Iterable[float]], **fields: Any) -> list[Round]:
    """Rounds of all states, block after block: state -> its bits a second in each block."""
    rounds: list[Round] = []
    for block, row in enumerate(zip(*(values[state] for state in states), strict=True)):
        for state, bits in zip(states, row, strict=True):
            rounds.append(made_round(len(rounds), state, block, bits, **fields))
    return rounds


def sample_with(n: int, mean: float, sd: float, seed: int = 1) -> list[float]:
    """`n` values with exactly this mean and sd."""
    rng = random.Random(seed)
    values = [rng.gauss(0, 1) for _ in range(n)]
    centre = math.fsum(values) / n
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (n - 1))
    return [mean + sd * (value - centre) / spread for value in values]
