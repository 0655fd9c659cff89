"""Whether every valid round is exact: 200 rounds of one second, each in a fresh lab, sizes against counters.

BIG TCP packets, packets of 64 KiB and software-segmented packets take turns. A
valid round is exact when its packet sizes add up to the interface counters in
packets and bytes, recomputed here from the record. What made rounds invalid is
counted by its first words.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from testbed.errors import InputError
from testbed.evidence.collect import CollectSpec
from testbed.evidence.collectors import collectors_for
from testbed.experiments.resolve import load_experiment
from testbed.experiments.schedule import Slot
from testbed.experiments.spec import RoundLimits
from testbed.records.round import Round
from testbed.running.measure import Task, measure

EXPERIMENT = """
topology: veth-pair
workload: {tool: iperf3, from: client, to: server, length: 500K, congestion: cubic, duration: 1}
states:
  big-tcp: {settings: {"*:veth0": {gso_max_size: 524280, gro_max_size: 524280}}}
  64-kib: {}
  segmented: {settings: {"client:veth0": {features: {tso: off, gso: off}}}}
"""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=200)
    arguments.add_argument("--collector", default="auto", choices=["auto", "bpf", "af_packet"])
    options = arguments.parse_args()
    rounds = measured(options.rounds, CollectSpec(collector=options.collector))
    valid = [record for record in rounds if record.valid]
    exact = sum(is_exact(record) for record in valid)
    for reason, times in Counter(first_words(r.reason) for r in rounds if not r.valid).most_common():
        print(f"invalid, {times} rounds: {reason}")
    for where, times in Counter(rule for r in valid for rule in r.packet_sizes_meta.rules.items()).items():
        print(f"{where[0]}, {times} rounds: compared as {where[1]}")
    share = len(valid) / len(rounds)
    low, high = wilson(len(valid), len(rounds))
    print(f"valid rounds / {len(rounds)} rounds: {share:.3f}x [{low:.3f}, {high:.3f}]")
    low, high = wilson(exact, len(valid))
    print(
        f"exact rounds / {len(valid)} valid rounds: {exact / max(1, len(valid)):.3f}x [{low:.3f}, {high:.3f}]"
    )
    return 0 if valid and exact == len(valid) else 1


def measured(count: int, collect: CollectSpec) -> list[Round]:
    """`count` rounds, the states in turn."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rounds.yaml"
        path.write_text(EXPERIMENT)
        states = list(load_experiment(str(path)).states.values())
        collectors = collectors_for(collect)
        rounds = []
        try:
            for number in range(count):
                state = states[number % len(states)]
                slot = Slot(number // len(states), number % len(states), state.name)
                record = measure(Task(number, slot, state, ""), collectors, RoundLimits(), Path(folder))
                rounds.append(record)
                print(f"round {number + 1}: {record.reason or 'valid'}", file=sys.stderr, flush=True)
        finally:
            for collector in collectors:
                collector.close()
        return rounds


def is_exact(record: Round) -> bool:
    """Whether packets and bytes of each device and direction are those that its counters moved by.

    A direction for which the record names a rule (dropped, merged) was compared by that.
    """
    packets: Counter[tuple[str, str]] = Counter()
    octets: Counter[tuple[str, str]] = Counter()
    for size in record.packet_sizes:
        where = f"{size.node}:{size.device}", size.direction
        packets[where] += size.packets
        octets[where] += size.packets * size.size
    return all(
        packets[place, way] == getattr(counted, f"{way}_packets")
        and octets[place, way] == getattr(counted, f"{way}_bytes")
        for place, counted in record.counters.items()
        for way in ("rx", "tx")
        if f"{place} {way}" not in record.packet_sizes_meta.rules
    )


def first_words(reason: str | None) -> str:
    """A reason without its figures."""
    return (reason or "").split(": ")[0]


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    if not of:
        raise InputError("no rounds")
    share, scale = hits / of, 1 + z * z / of
    centre = (share + z * z / (2 * of)) / scale
    half = z / scale * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


if __name__ == "__main__":
    sys.exit(main())
