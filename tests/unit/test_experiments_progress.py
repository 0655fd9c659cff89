"""The progress of a run, as it is printed where no terminal is."""

from made_rounds import made_round

from testbed.cli.progress import Terminal
from testbed.experiments.runner import Progress


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
