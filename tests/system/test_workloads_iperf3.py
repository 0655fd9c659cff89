"""iperf3 in real namespaces: what it measures, and what each kind of failure leaves in the record."""

import json
import time
from pathlib import Path

import pytest
from msgspec.structs import asdict
from workload_lab import processes_in, run

from testbed.lab.lab import open_lab
from testbed.nodes.sysctl_files import read_sysctl, write_sysctl
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.ports import RESERVED
from testbed.workloads.tool import Hooks

pytestmark = pytest.mark.requires("iperf3")

IPERF3 = {"tool": "iperf3", "length": "500K"}


def test_a_round_is_recorded_with_its_fixed_tuple_and_named_congestion_control(tmp_path):
    outcome = run(tmp_path, **IPERF3, omit=1)
    workload = outcome.workload
    assert outcome.reason is None
    assert workload.congestion == "cubic"
    assert asdict(workload.tuple) == {
        "source": "fd01::1",
        "source_port": 40001,
        "destination": "fd01::2",
        "destination_port": 5201,
    }
    assert workload.bits_per_second == pytest.approx(workload.bytes * 8 / outcome.measured_s, rel=1e-3)
    assert 0.7 < outcome.measured_s < 1.9, "the warm-up second is excluded"
    assert workload.version == TOOLS["iperf3"].version()
    assert outcome.processes["client"].system_s > 0
    assert outcome.processes["server"].system_s > 0


def test_the_raw_json_of_both_ends_is_kept_as_libiperf_gave_it(tmp_path):
    more_than_a_pipe_holds = "x" * 70_000
    kept = run(tmp_path, **IPERF3, args=["--extra-data", more_than_a_pipe_holds]).workload.raw
    names = ["00000-x-iperf3-client.json", "00000-x-iperf3-server.json"]
    assert kept == [f"{tmp_path.name}/{name}" for name in names]
    client, server = (json.loads((tmp_path / name).read_bytes()) for name in names)
    assert client["extra_data"] == more_than_a_pipe_holds
    assert client["start"]["cookie"] == server["start"]["cookie"]
    assert client["start"]["test_start"]["blksize"] == 512_000


def test_measuring_is_told_when_the_omitted_time_has_passed(tmp_path):
    moments = []
    began = time.monotonic()
    run(tmp_path, **IPERF3, omit=1, duration=2, at_start=lambda lab: moments.append(time.monotonic()))
    ended = time.monotonic()
    assert len(moments) == 1
    assert moments[0] - began >= 1
    assert ended - moments[0] > 0.5, "the seconds that count are still to come"


@pytest.mark.parametrize(
    "options",
    [
        {"family": 4},
        {"reverse": True, "nodelay": True},
        {"udp": True, "bitrate": "100M", "length": 1400},
        {"zerocopy": True, "mss": 1400, "tos": 16, "window": "1M", "bind_device": "veth0"},
        {"fq_rate": "1G", "pacing_timer": 100, "args": ["--extra-data", "x", "--get-server-output"]},
        {"client_port": None, "streams": 3},
    ],
    ids=lambda options: " ".join(options),
)
def test_options_reach_the_library(tmp_path, options):
    outcome = run(tmp_path, **IPERF3 | options)
    assert outcome.reason is None
    assert outcome.workload.bits_per_second > 0
    assert len(outcome.workload.flows) == options.get("streams", 1)


def test_bidir_adds_the_two_directions(tmp_path):
    outcome = run(tmp_path, **IPERF3, bidir=True)
    assert outcome.reason is None
    parts = [flow.bits_per_second for flow in outcome.workload.flows]
    assert len(parts) == 2
    assert outcome.workload.bits_per_second == pytest.approx(sum(parts), rel=0.05)


@pytest.mark.parametrize("reserved", ["", "50000-50002"])
def test_a_control_connection_takes_no_port_of_a_stream(tmp_path, reserved):
    """connect() takes the first of these two, unless it is reserved: it is the client's second stream's."""
    seen = []

    def narrow(lab):
        lab.nodes["client"].call(write_sysctl, "net.ipv4.ip_local_port_range", "40002 40003")
        if reserved:
            lab.nodes["client"].call(write_sysctl, RESERVED, reserved)

    def look(lab):
        seen.append(lab.nodes["client"].call(read_sysctl, RESERVED))

    outcome = run(tmp_path, **IPERF3, bidir=True, before=narrow, at_start=look, at_end=look)
    assert outcome.reason is None
    assert {flow.tuple.source_port for flow in outcome.workload.flows} == {40001, 40002}
    assert seen == [",".join(filter(None, ["5201,40001-40002", reserved])), reserved]


def test_processes_run_on_their_cpus_only(tmp_path):
    seen = {}
    with open_lab("veth-pair") as lab:

        def look():
            for node in ("client", "server"):
                for pid in processes_in(lab.nodes[node]):
                    status = Path(f"/proc/{pid}/status").read_text()
                    seen[node] = status.split("Cpus_allowed_list:")[1].split()[0]

        options = parse_options({**IPERF3, "from": "client", "to": "server", "duration": 1})
        TOOLS["iperf3"].run(
            lab, options, cpus={"client": [0], "server": [1]}, hooks=Hooks(look), raw=tmp_path, raw_name="x"
        )
    assert seen == {"client": "0", "server": "1"}
