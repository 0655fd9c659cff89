"""A run made by hand that has everything a report can show: the Nagle experiment in small."""

import random

from made_rounds import made_round, made_run, made_state, packets

from testbed.records.round import CoreUse, Cpu, Round, Tuple, Workload
from testbed.records.run import Run

SIZES = {
    "big-tcp": {862: 4100, 511318: 4000, 512094: 1900},
    "big-tcp-nodelay": {512094: 6200},
    "big-tcp-one-cpu": {511318: 60, 512094: 6500, 512746: 64},
}
GBITS = {"big-tcp": 48.0, "big-tcp-nodelay": 50.4, "big-tcp-one-cpu": 54.0}
BIG = {place: {"mtu": 1500, "gso_max_size": 524280} for place in ("client:veth0", "server:veth0")}


def nagle_run(blocks: int = 8) -> tuple[Run, list[Round]]:
    """The run and its rounds: three states, one skipped, two rounds invalid."""
    states = {
        "big-tcp": made_state(BIG, {"client": [0], "server": [1]}, length=512_000),
        "big-tcp-nodelay": made_state(BIG, {"client": [0], "server": [1]}, length=512_000, nodelay=True),
        "big-tcp-one-cpu": made_state(BIG, {"client": [0], "server": [0]}, length=512_000),
        "jumbogram": made_state({"*:veth0": {"mtu": 524280}}, length=512_000),
    }
    pairs = [["big-tcp", "big-tcp-nodelay"], ["big-tcp", "big-tcp-one-cpu"]]
    expect = [{"big-tcp-nodelay": {"server:veth0.rx.862.packets": "== 0"}}]
    run = made_run(
        states,
        experiment={"name": "nagle", "compare": pairs, "expect": expect},
        skipped={"jumbogram": "veth.max_mtu is 65535, asked >= 524280"},
    )
    rng = random.Random(1)
    rounds: list[Round] = []
    for block in range(blocks):
        order = list(SIZES)
        rng.shuffle(order)
        for state in order:
            if block in (2, 5) and state == "big-tcp":
                reason = "iperf3: unable to connect to server: Connection refused"
                rounds.append(made_round(len(rounds), state, block, None, valid=False, reason=reason))
            rounds.append(_round(rng, len(rounds), state, block))
    return run, rounds


def _round(rng: random.Random, number: int, state: str, block: int) -> Round:
    bits = GBITS[state] * 1e9 * rng.gauss(1, 0.02)
    sizes = {size: round(count * rng.gauss(1, 0.03)) for size, count in SIZES[state].items()}
    ends = Tuple(source="fd01::1", source_port=5000, destination="fd01::2", destination_port=5201)
    rows = packets("client:veth0", "rx", {86: sum(sizes.values())})
    for place, direction in (("client:veth0", "tx"), ("server:veth0", "rx")):
        rows += packets(place, direction, sizes, gso_size=1428)
    held = {place: {**values, "addresses": []} for place, values in BIG.items()}
    busy = rng.gauss(60, 3)
    use = CoreUse(user=2, system=busy, softirq=12, irq=0.4, idle=100 - 14.4 - busy)
    return made_round(
        number,
        state,
        block,
        bits,
        packet_sizes=rows,
        settings=held,
        cpu=Cpu(per_core=[use, use], app=use, net=CoreUse(system=20, softirq=50, idle=30)),
        workload=Workload(
            tool="iperf3",
            bits_per_second=bits,
            bytes=round(bits / 8),
            retransmits=0,
            congestion="cubic",
            tuple=ends,
        ),
    )
