"""Tools that do not tell the truth, by a clock that is set or on their own: the round says so."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from preloaded_library import build
from workload_lab import in_the_middle, record, send

from testbed.evidence.packet_sizes import PacketSizes
from testbed.evidence.tcp import TcpState

pytestmark = pytest.mark.requires("root", "veth", "netperf")

# Becomes the tool of its name after what `LIES` says was done to its figures: `KEY*FACTOR`, or `KEY=VALUE`.
LIAR = """
import re, subprocess, sys
done = subprocess.run([{program!r}, *sys.argv[1:]], stdout=subprocess.PIPE)
text = done.stdout.decode()
for key, how, figure in re.findall(r"(\\w+)([*=])([-\\d.]+)", {lies!r}):
    def changed(match):
        if how == "=":
            return match[1] + figure
        value = float(match[2]) * float(figure)
        return match[1] + (f"{{value:.2f}}" if "." in match[2] else str(round(value)))
    text = re.sub(rf"^({{key}}=)(\\S+)$", changed, text, flags=re.MULTILINE)
sys.stdout.write(text)
sys.exit(done.returncode)
"""


@pytest.fixture
def instead(tmp_path, monkeypatch):
    """Puts a program in the place of `netperf`, which `written` gets the path of."""

    def put(first_line, written):
        program = tmp_path / "bin" / "netperf"
        program.parent.mkdir()
        program.write_text(f"#!{first_line}\n{written(shutil.which('netperf'))}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{program.parent}:{PATH}")

    return put


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture
def lies(instead):
    return lambda text: instead(sys.executable, lambda program: LIAR.format(program=program, lies=text))


@pytest.fixture
def clock_is_set(instead, tmp_path):
    library = build("stepped_clock", tmp_path)
    return lambda step: instead(
        "/bin/sh",
        lambda program: f'LD_PRELOAD={library} CLOCK_STEP_S={step} exec {program} "$@"\n',
    )


def measured(tmp_path, **options):
    """The record of a round of netperf, with the evidence that its figures are held against."""
    raw = tmp_path / "raw"
    raw.mkdir()
    found, _ = record(raw, beside=[PacketSizes(None), TcpState()], tool="netperf", **options)
    return found


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (-3600, r"netperf says that it measured for -359\d(\.\d+)? s, and was asked for 1 s"),
        (3600, r"netperf says that it measured for 360\d(\.\d+)? s, and was there for 1\.\d+ s"),
        (-0.9, r"netperf says that it measured for 0\.1\d? s, and was asked for 1 s"),
        (1.5, r"netperf says that it measured for 2\.5\d? s, and was there for 1\.\d+ s"),
    ],
)
def test_time_by_a_clock_that_is_set(tmp_path, clock_is_set, step, words):
    clock_is_set(step)
    found = measured(tmp_path)
    assert not found.valid
    assert re.search(words, found.reason)


@pytest.mark.parametrize("step", [-3600, 3600])
def test_latency_by_a_clock_that_is_set(tmp_path, clock_is_set, step):
    clock_is_set(step)
    found = measured(tmp_path, test="TCP_RR")
    assert not found.valid
    assert "netperf says that it measured for" in found.reason


@pytest.mark.parametrize(
    ("options", "untrue", "words"),
    [
        (
            {},
            "THROUGHPUT*2 REMOTE_BYTES_RECVD*2",
            r"server: \d+ bytes arrived by the tool, its devices received \d+",
        ),
        (
            {"test": "TCP_MAERTS"},
            "THROUGHPUT*1.3 LOCAL_BYTES_RECVD*1.3",
            r"client: \d+ bytes arrived by the tool, its devices received \d+",
        ),
        (
            {"test": "UDP_STREAM", "family": 4, "length": 1400},
            "THROUGHPUT*3 REMOTE_BYTES_RECVD*3",
            r"server: \d+ bytes arrived by the tool, its devices received \d+",
        ),
        (
            {"duration": 3},
            "THROUGHPUT*0.3 REMOTE_BYTES_RECVD*0.3",
            r"\d+ bytes arrived by the tool, \d+ were acknowledged to the senders' sockets",
        ),
        ({}, "THROUGHPUT*2", r"netperf counted \d+ bytes, and its rate of \S+ bit/s over \S+ s is \d+"),
        ({}, "REMOTE_BYTES_RECVD*0.5", r"netperf counted \d+ bytes, and its rate of"),
        ({}, "ELAPSED_TIME=0.3", r"netperf says that it measured for 0\.3 s, and was asked for 1 s"),
        ({}, "REMOTE_BYTES_RECVD=1.5.2", r"client: its result cannot be read: ValueError: "),
        ({}, "ELAPSED_TIME=9", r"netperf says that it measured for 9 s, and was there for \d\.\d+ s"),
        (
            {"test": "TCP_RR"},
            "MAX_LATENCY=694967304",
            r"netperf says that the max latency is 6\.94967e\+08 us, in a test of \d\.\d+ s",
        ),
        ({"test": "TCP_RR"}, "MIN_LATENCY=-5", r"netperf says that the min latency is -5 us"),
        (
            {"test": "UDP_RR"},
            "P50_LATENCY=900000",
            r"netperf says that the p50 latency is 900000 us and the p90 ",
        ),
        (
            {"test": "TCP_RR"},
            "MEAN_LATENCY*3",
            r"requests a second waited for \S+ us each, which is [23]\.\d+ s",
        ),
        (
            {"test": "TCP_RR"},
            "THROUGHPUT*2 LOCAL_BYTES_SENT*2 LOCAL_BYTES_RECVD*2 MEAN_LATENCY*0.5",
            r"server: \d+ requests or responses arrived by the tool, its devices received \d+ packets",
        ),
    ],
    ids=lambda value: (
        value if isinstance(value, str) and " arrived" not in value and "\\" not in value else ""
    ),
)
def test_figures_that_disagree(tmp_path, lies, options, untrue, words):
    lies(untrue)
    found = measured(tmp_path, **options)
    assert not found.valid
    assert re.search(words, found.reason), found.reason


def test_a_true_figure_is_none_of_them(tmp_path, lies):
    lies("")
    found = measured(tmp_path, duration=3)
    assert found.valid, found.reason
    assert found.clock_steps == []
    assert 0 < found.tcp.acked_bytes <= found.workload.bytes * 1.05


ROUND = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import msgspec
from workload_lab import in_the_middle, record
set_clock = in_the_middle(lambda lab: Path({file!r}).touch())
found, _ = record(Path({raw!r}), tool=sys.argv[1], duration=2, at_start=set_clock)
print(msgspec.json.encode(found).decode())
"""


@pytest.mark.requires("iperf3")
@pytest.mark.parametrize("step", [-3600.0, 0.05])
@pytest.mark.parametrize("tool", ["iperf3", "netperf"])
def test_a_clock_that_is_set_in_a_round_is_noted_and_matters_to_who_measures_by_it(tmp_path, tool, step):
    """The whole program and its tools see the step: nothing is left but CLOCK_MONOTONIC."""
    file = tmp_path / "set"
    code = ROUND.format(here=str(Path(__file__).parent), raw=str(tmp_path), file=str(file))
    environment = {"LD_PRELOAD": str(build("stepped_clock", tmp_path)), "CLOCK_STEP_S": str(step)}
    done = subprocess.run(
        [sys.executable, "-c", code, tool],
        env={**os.environ, **environment, "CLOCK_STEP_FILE": str(file)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["by_s"] for one in found["clock_steps"]] == [pytest.approx(step, abs=0.01)]
    assert 2 <= found["wall_s"] < 30
    assert found["valid"] == (tool == "iperf3"), found["reason"]
    if tool == "netperf":
        words = "set back by 3600." if step < 0 else "set forward by 0.05"
        assert f"netperf measures by the wall clock, which was {words}" in found["reason"]


HONEST = {
    "both directions": {"tool": "iperf3", "bidir": True, "omit": 1},
    "reverse": {"tool": "iperf3", "reverse": True, "omit": 1},
    "8 streams": {"tool": "iperf3", "streams": 8, "omit": 1},
    "a flood that does not fit": {"tool": "iperf3", "udp": True, "bitrate": 0},
    "slow": {"tool": "iperf3", "fq_rate": "10M", "omit": 1, "duration": 2},
    "requests": {"tool": "netperf", "test": "UDP_RR"},
    "requests beside each other": {"tool": "netperf", "test": "TCP_RR", "burst": 16},
    "connections": {"tool": "netperf", "test": "TCP_CRR"},
    "columns": {"tool": "netperf", "test": "TCP_SENDFILE"},
    "zero copy": {"tool": "zerocopy", "omit": 1},
    "flows": {
        "tool": "flows",
        "omit": 1,
        "flows": [
            {"tool": "netperf", "test": "TCP_RR"},
            {"tool": "iperf3", "count": 2, "background": True},
            {"tool": "iperf3", "udp": True, "bitrate": "100M", "from": "server", "to": "client"},
        ],
    },
}


@pytest.mark.requires("iperf3")
@pytest.mark.parametrize("name", HONEST)
def test_honest_figures_are_believed(tmp_path, name):
    found, _ = record(tmp_path, beside=[PacketSizes(None), TcpState()], **HONEST[name])
    assert found.valid, found.reason


@pytest.mark.requires("iperf3")
def test_a_receiver_that_gives_up_ends_the_round(tmp_path):
    found, _ = record(
        tmp_path,
        tool="iperf3",
        duration=5,
        timeout=2,
        server_args=["--rcv-timeout", "300"],
        at_start=in_the_middle(send(signal.SIGSTOP, "client")),
    )
    assert not found.valid
    assert "server: " in found.reason


EXPERIMENT = """\
topology: veth-pair
workload: {tool: netperf, from: client, to: server, duration: 1}
protocol: {rounds: 1, warmup: 0, retries: 1}
collect: {collector: none}
"""


def test_no_untrue_figure_reaches_a_mean(tmp_path, clock_is_set):
    clock_is_set(-3600)
    path = tmp_path / "mine.yaml"
    path.write_text(EXPERIMENT)
    results = tmp_path / "results"
    run = [sys.executable, "-m", "testbed", "run", path, "--results", results]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    (folder,) = results.iterdir()
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    assert [record["valid"] for record in rounds] == [False, False]
    report = [sys.executable, "-m", "testbed", "report", folder, "--format", "json"]
    states = json.loads(subprocess.run(report, capture_output=True, text=True, timeout=60).stdout)["states"]
    assert all(not metrics or "mean" not in json.dumps(metrics) for metrics in states.values())
