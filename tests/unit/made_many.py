"""A long run with all that a real round records: one recorded round of 18 KB, varied."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from made_rounds import made_run, made_state

from testbed.records.run import Run

STATES = ("mtu-65535", "big-tcp", "big-tcp-nodelay")


def many_run() -> Run:
    return made_run({name: made_state(length=512_000) for name in STATES})


def many_lines(count: int) -> Iterator[str]:
    """Lines of rounds.jsonl: rare sizes change from round to round, as remainders of writes do."""
    first = json.loads(Path(__file__).with_name("nagle_round.json").read_text())
    rare = {row["size"] for row in first["packet_sizes"] if row["packets"] <= 2 and row["size"] > 1000}
    rng = random.Random(1)
    for number in range(count):
        new: dict[int, int] = {size: rng.randrange(1000, 65549, 8) for size in rare}
        yield _line(first, number, rng.gauss(1, 0.02), new)


def _line(first: dict[str, Any], number: int, factor: float, new: dict[int, int]) -> str:
    block, position = divmod(number, len(STATES))
    place = {"round": number, "block": block, "position": position, "state": STATES[position]}
    workload = {**first["workload"], "bits_per_second": first["workload"]["bits_per_second"] * factor}
    sizes = [row | {"size": new.get(row["size"], row["size"])} for row in first["packet_sizes"]]
    line = first | place | {"workload": workload, "packet_sizes": sizes}
    return json.dumps(line, separators=(",", ":")) + "\n"
