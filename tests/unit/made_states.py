"""A run of many states on two kernels."""

from made_rounds import made_round, made_run, made_state, packets

from testbed.analysis.report import Report, make_report
from testbed.records.run import Kernel

KERNELS = ("6.18.5", "7.3.4")
AXES = {
    "family": {"ipv4": {"workload": {"family": 4}}, "ipv6": {"workload": {"family": 6}}},
    "limit": {f"gso{size}": {"settings": {"*:veth0": {"gso_max_size": size}}} for size in range(1000, 1012)},
}
STATES = [f"{family}-{limit}" for family in AXES["family"] for limit in AXES["limit"]]


def many_states_report() -> Report:
    """24 states on two kernels, of which the second is faster in the first state only."""
    rounds = [
        made_round(
            len(KERNELS) * (len(STATES) * block + position) + turn,
            state,
            block,
            (40 + block % 3) * 1e9 * (2.0 if turn and not position else 1.0),
            kernel=kernel,
            packet_sizes=packets("server:veth0", "rx", {86: 10, 862: 10, 65226: 100}),
        )
        for block in range(12)
        for position, state in enumerate(STATES)
        for turn, kernel in enumerate(KERNELS)
    ]
    expect = [{"*": {"bits_per_second": "> 1G"}}, {STATES[1]: {"server:veth0.rx.862.packets": "== 0"}}]
    run = made_run(
        {name: made_state() for name in STATES},
        kernels={name: Kernel(release=name, version="#1") for name in KERNELS},
        experiment={"name": "many", "matrix": {"axes": AXES}, "expect": expect},
    )
    return make_report(run, rounds)
