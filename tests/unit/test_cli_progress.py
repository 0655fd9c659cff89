"""The progress of a run, as it is printed where no terminal is."""

from pathlib import Path

from made_rounds import made_round, made_run, made_state

from testbed.cli.progress import Terminal
from testbed.experiments.schedule import StoppingRule
from testbed.records.run import Kernel
from testbed.running.runner import Progress


def printed(capsys, record):
    with Terminal() as terminal:
        terminal.measured(record, Progress([]))
    return capsys.readouterr().err


def test_the_reason_of_an_invalid_round_is_cut_to_what_fits_a_line(capsys):
    reason = "packet sizes disagree with the counters: " + "; ".join(
        f"server:veth{number} rx: 2358 packets by BPF, 2360 by the counters" for number in range(9)
    )
    line = printed(capsys, made_round(3, "big-tcp", 1, valid=False, reason=reason))
    assert "INVALID: packet sizes disagree with the counters: server:veth0 rx" in line
    assert line.count("\n") == 1
    assert len(line.partition("INVALID: ")[2].partition(" ...")[0]) <= 100
    assert " ..." in line


def test_a_short_reason_stands_whole(capsys):
    line = printed(capsys, made_round(0, "a", 0, valid=False, reason="iperf3: connection refused"))
    assert "INVALID: iperf3: connection refused" in line
    assert "..." not in line


def test_the_time_left_counts_the_rounds_of_every_kernel_but_not_skipped_ones(capsys):
    """Two states on two kernels, three rounds each, one state skipped on the second: 9 rounds of 1.4 s."""
    kernels = {name: Kernel(release=name, version="#1 SMP") for name in ("old", "new")}
    run = made_run({"a": made_state(), "b": made_state()}, kernels=kernels)
    progress = Progress([], kernels=2)

    def measured(state, kernel, block):
        terminal.measured(made_round(0, state, block, kernel=kernel), progress)
        return capsys.readouterr().err.strip().splitlines()[-1]

    with Terminal() as terminal:
        terminal.begun(run, Path("results/x"), StoppingRule(3, 3), 9.0)
        assert measured("a", "old", 0).endswith("00:15 left")  # 11 x 1.4 s
        assert measured("a", "old", 0).endswith("00:15 left")  # the same again, invalid before
        terminal.skipped("b@new", "refused")
        for block in range(3):
            measured("a", "old", block)
            measured("b", "old", block)
        progress.blocks = 3
        assert measured("a", "new", 0).endswith("00:03 left")
        assert measured("a", "new", 2).endswith("00:01 left")
