"""testbed run, as a user runs it: real namespaces, real iperf3, real BPF."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import psutil
import pytest
from json_schema import differences

from testbed.lab.named import labs
from testbed.probing import find

pytestmark = pytest.mark.requires("root", "veth", "iperf3", "bpf")

ROOT = Path(__file__).parents[2]


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "testbed", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=options.pop("cwd", ROOT),
        **options,
    )


def rounds(folder):
    """The rounds so far; the last line may be half written."""
    lines = (folder / "rounds.jsonl").read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def only_folder(results):
    (folder,) = results.iterdir()
    return folder


def left_behind():
    """Namespaces with a name of ours that no lab owns, and the devices of the machine's own namespace."""
    named = {path.name for path in Path("/run/netns").glob("tb-*")}
    owned = {name for lab in labs() if lab.status != "leftover" for name in lab.nodes.values()}
    return named - owned | {path.name for path in Path("/sys/class/net").iterdir()}


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """The nagle experiment for a busy machine.

    There BPF misses packets in up to half of the rounds, and a second need not be enough
    for the sizes that the experiment expects.
    """
    shipped = (ROOT / "experiments" / "nagle.yaml").read_text().partition("\nexpect:")[0]
    path = tmp_path_factory.mktemp("experiments") / "nagle.yaml"
    path.write_text(shipped.replace("warmup: 1}", "warmup: 1, retries: 20}") + "\n")
    return path


@pytest.fixture(scope="module")
def nagle(patient, tmp_path_factory):
    """Two states of the nagle experiment, two rounds each: (process, run's folder)."""
    results = tmp_path_factory.mktemp("results")
    done = command(
        "run", patient, "--state", "big-tcp", "--state", "big-tcp-nodelay",
        "--rounds", 2, "--duration", 1, "--omit", 1, "--results", results, "--seed", 5,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done, only_folder(results)


NONE_UNSEEN = {"packets": 0, "bytes": 0}


def test_every_round_is_exact(nagle):
    valid = [record for record in rounds(nagle[1]) if record["valid"] and not record["warmup"]]
    assert len(valid) == 4  # two of each state
    for record in valid:
        for place, counters in record["counters"].items():
            for direction in ("rx", "tx"):
                seen = [
                    size
                    for size in record["packet_sizes"]
                    if f"{size['node']}:{size['device']}" == place and size["direction"] == direction
                ]
                unseen = record["packet_sizes_meta"]["unseen"].get(f"{place} {direction}", NONE_UNSEEN)
                packets = sum(s["packets"] for s in seen) + unseen["packets"]
                octets = sum(s["packets"] * s["size"] for s in seen) + unseen["bytes"]
                assert (packets, octets) == (counters[f"{direction}_packets"], counters[f"{direction}_bytes"])


def test_the_sizes_are_the_arithmetic_of_nagle(nagle):
    """512000-byte writes, MSS 1428, 86 bytes of headers; some kernels add 8 above 65535.

    On an idle machine NODELAY has 99.9% of its bytes in whole writes and no 862. On a busy
    one the window is now and then too small for a write, and an ACK late enough for a tail
    loss probe, which sends the end of the last write again: one retransmit each.
    """
    packets, retransmits = defaultdict(Counter), Counter()
    for record in rounds(nagle[1]):
        if record["valid"] and not record["warmup"]:
            retransmits[record["state"]] += record["workload"]["retransmits"]
            for size in record["packet_sizes"]:
                if (size["node"], size["direction"]) == ("server", "rx"):
                    packets[record["state"]][size["size"]] += size["measured_packets"]
    whole, multiple, rest = {512_086, 512_094}, {511_310, 511_318}, {862}

    def count(state, sizes):
        return sum(packets[state][size] for size in sizes)

    def share(state, sizes):
        octets = Counter({size: size * number for size, number in packets[state].items()})
        return sum(octets[size] for size in sizes) / octets.total()

    assert share("big-tcp", multiple) > share("big-tcp-nodelay", multiple)
    assert share("big-tcp-nodelay", whole) > share("big-tcp", whole)
    alone = count("big-tcp-nodelay", rest)
    assert alone <= 0.1 * count("big-tcp-nodelay", whole) + retransmits["big-tcp-nodelay"]


def test_a_record_has_what_scripts_rely_on(nagle):
    record = rounds(nagle[1])[-1]
    seconds = record["measured_s"]
    assert 0.9 <= seconds < 1.9, "the warm-up second is excluded"
    assert record["workload"]["bits_per_second"] == pytest.approx(record["workload"]["bytes"] * 8 / seconds)
    assert record["workload"]["congestion"] == "cubic"
    assert record["settings"]["client:veth0"]["gso_max_size"] == 524_280
    assert {"client", "server"} <= record["cpu"]["processes"].keys()
    assert record["cpu"]["processes"]["client"]["system_s"] > 0
    run = json.loads((nagle[1] / "run.json").read_text())
    assert run["schema"] == 1
    assert run["status"] == "complete"
    assert run["seed"] == 5
    assert run["kernels"]
    assert "iperf3" in run["tools"]
    assert set(run["states"]) == {"big-tcp", "big-tcp-nodelay"}


def test_what_is_written_is_what_the_printed_schemas_say(nagle):
    schemas = {name: json.loads(command("schema", name).stdout) for name in ("run", "round")}
    run = json.loads((nagle[1] / "run.json").read_text())
    assert differences(run, schemas["run"]) == []
    written = rounds(nagle[1])
    assert len(written) > 4
    assert [differences(record, schemas["round"]) for record in written] == [[]] * len(written)
    # The comparison itself must be able to fail.
    assert differences({**written[0], "round": "0", "cpuu": None}, schemas["round"]) == [
        ".round: '0' is no integer", ".cpuu: unknown"
    ]  # fmt: skip
    del run["seed"]
    assert differences(run, schemas["run"]) == [".seed: missing"]


def test_the_report_can_be_made_again_as_json(nagle):
    done = command("report", nagle[1], "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    metric = report["states"]["big-tcp"]["bits_per_second"]
    assert metric["n"] == 2
    assert metric["ci95"][0] < metric["mean"] < metric["ci95"][1]
    assert report["comparisons"][0]["verdict"] == "too few rounds"


def test_killed_in_the_middle_nothing_stays_and_resume_ends_with_the_same_schedule(patient, tmp_path):
    before = left_behind()
    argv = [
        sys.executable, "-m", "testbed", "run", str(patient),
        "--state", "big-tcp", "--state", "big-tcp-nodelay",
        "--rounds", "2", "--duration", "1", "--omit", "0", "--results", str(tmp_path), "--seed", "9",
    ]  # fmt: skip
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_until(lambda: list(tmp_path.glob("*/rounds.jsonl")) and len(rounds(only_folder(tmp_path))) == 2)
    _wait_until(psutil.Process(process.pid).children)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _wait_until(lambda: not any(worker.is_running() for worker in workers))
    _wait_until(lambda: left_behind() <= before)

    folder = only_folder(tmp_path)
    report = command("report", folder)
    assert report.returncode == 0, report.stderr
    assert "interrupted" in report.stdout
    resumed = command("run", "--resume", folder, "--results", tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    whole = command(*argv[3:-4], "--results", tmp_path / "whole", "--seed", "9")
    assert whole.returncode == 0, whole.stderr
    schedule = [
        (r["block"], r["position"], r["state"]) for r in rounds(folder) if r["valid"] and not r["warmup"]
    ]
    other = rounds(only_folder(tmp_path / "whole"))
    assert schedule == [
        (r["block"], r["position"], r["state"]) for r in other if r["valid"] and not r["warmup"]
    ]


def _wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_a_state_that_the_kernel_cannot_run_is_skipped_with_its_reason(patient, tmp_path):
    done = command(
        "run", patient, "--state", "big-tcp", "--state", "jumbogram",
        "--rounds", 1, "--duration", 1, "--results", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = json.loads((only_folder(tmp_path) / "run.json").read_text())
    measured = {record["state"] for record in rounds(only_folder(tmp_path))}
    largest = find(["veth"]).values["veth.max_mtu"]
    if largest >= 524_280:  # a kernel built with the jumbogram series
        assert (run["skipped"], measured) == ({}, {"big-tcp", "jumbogram"})
        return
    reason = f"veth.max_mtu is {largest}, needed >= 524280"
    assert (run["skipped"], measured) == ({"jumbogram": reason}, {"big-tcp"})
    assert f"skip jumbogram: {reason}" in done.stderr


EXPERIMENT = """\
topology: veth-pair
workload: {tool: iperf3, from: client, to: server, duration: 1}
"""


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (
            "settings: {'client:veth9': {mtu: 1500}}",
            2,
            ":3: state default: settings: the topology has no device",
        ),
        (
            "states:\n  a: {settings: {'clint:veth0': {mtu: 1500}}}",
            2,
            ":4: state a: settings: the topology has no",
        ),
        (
            "settings: {'*:veth0': {mut: 1500}}",
            2,
            ":3: settings.*:veth0.mut: unknown key, did you mean 'mtu'?",
        ),
        (
            "settings: {'*:veth0': {gso_max_size: 600000}}",
            2,
            ":3: state default: client:veth0: gso_max_size 600000",
        ),
        ("settings: {'*:veth0': {mtu: 524280}}", 3, "65535"),
        ("compare: [[default, other]]", 2, ":3: compare.0: 'other' is not a state"),
        ("cpus: {client: 4096}", 3, "CPU 4096"),
        ("requires: {veth.max_mtu: '>= 99999999'}", 3, "veth.max_mtu"),
    ],
)
def test_a_bad_experiment_is_one_line(tmp_path, change, status, message):
    path = tmp_path / "bad.yaml"
    path.write_text(EXPERIMENT + change + "\n")
    before = left_behind()
    done = command("run", path, "--rounds", 1, "--results", tmp_path / "results")
    assert done.returncode == status, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("testbed: ")]
    assert len(told) == 1, done.stderr
    assert message in told[0]
    assert "Traceback" not in done.stderr
    _wait_until(lambda: left_behind() <= before)
    assert not (tmp_path / "results").exists()


def test_what_does_not_exist_is_told_with_what_does():
    done = command("run", "nagel")
    assert (done.returncode, done.stderr) == (
        2,
        "testbed: nagel: no such experiment, did you mean 'nagle'?\n",
    )


def started(results, *, rounds_before, duration=1):
    """A run of two states in the background, in the middle of the round after `rounds_before`."""
    argv = [
        sys.executable, "-m", "testbed", "run", "nagle", "--state", "big-tcp", "--state", "big-tcp-nodelay",
        "--rounds", "2", "--duration", str(duration), "--omit", "0", "--results", str(results),
    ]  # fmt: skip
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _wait_until(lambda: list(results.glob("*/rounds.jsonl")))
    _wait_until(lambda: len(rounds(only_folder(results))) == rounds_before)
    _wait_until(psutil.Process(process.pid).children)
    return process


def test_one_interrupt_ends_after_the_round_in_progress(tmp_path):
    process = started(tmp_path, rounds_before=1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "ending after this round" in told
    assert len(rounds(only_folder(tmp_path))) == 2
    assert json.loads((only_folder(tmp_path) / "run.json").read_text())["status"] == "interrupted"


def test_a_second_interrupt_ends_at_once_and_keeps_what_was_measured(tmp_path):
    process = started(tmp_path, rounds_before=0, duration=60)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _wait_until(lambda: "once more ends at once" in process.stderr.readline())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)  # less than the round's 60 s
    assert process.returncode == 1
    assert rounds(only_folder(tmp_path)) == []
    assert not any(worker.is_running() for worker in workers)
    assert json.loads((only_folder(tmp_path) / "run.json").read_text())["status"] == "interrupted"


def test_an_interrupt_while_an_invalid_round_is_repeated_ends_interrupted_and_resume_goes_on(tmp_path):
    """The server ends each test that sends more than it allows: no round of it is ever valid."""
    experiment = tmp_path / "limited.yaml"
    experiment.write_text(
        "topology: veth-pair\n"
        "workload: {tool: iperf3, from: client, to: server, duration: 8,\n"
        "           server_args: [--server-bitrate-limit, 1M/2]}\n"
        "protocol: {rounds: 1}\n"
    )
    results = tmp_path / "results"
    argv = [sys.executable, "-m", "testbed", "run", str(experiment), "--results", str(results)]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _wait_until(lambda: "INVALID" in process.stderr.readline())
    _wait_until(psutil.Process(process.pid).children)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1, told
    folder = only_folder(results)
    assert f"run: {folder} (interrupted)" in told
    assert len(rounds(folder)) == 2
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"

    resumed = command("run", "--resume", folder, "--results", results)
    assert resumed.returncode == 1, resumed.stderr
    assert f"run: {folder} (failed)" in resumed.stderr
    assert "no valid round" in resumed.stderr
    assert len(rounds(folder)) > 2
