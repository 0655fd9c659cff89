"""kperf in real namespaces, by stand-ins of its programs that connect and print as they do."""

import re
import sys

import pytest
from workload_lab import run

from testbed.errors import MissingCapability
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.kperf import CLIENT, SERVER

HELPS = """
import sys
if "--help" in sys.argv:
    sys.exit(0)
"""
SERVES = """
import socket, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
server = socket.create_server(("::", port), family=socket.AF_INET6)
while True:
    server.accept()[0].close()
"""
ORCHESTRATES = """
import socket, sys, time
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
for end in ("--src", "--dst"):
    socket.create_connection((given[end], int(given["--src-svc"]))).close()
time.sleep(float(given["--time"]))
for section in ("Source", "Target"):
    print(f"client: == {section}", file=sys.stderr)
    print("client:   Tx  8.000 Gbps (1000000000 bytes in 1000000 usec)", file=sys.stderr)
    print("client:   Rx  8.000 Gbps (1000000000 bytes in 1000000 usec)", file=sys.stderr)
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    for name, code in ((SERVER, SERVES), (CLIENT, ORCHESTRATES)):
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\n{HELPS}{code}")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin")


def test_a_server_in_each_node_and_the_client_between_them(tmp_path, programs):
    outcome = run(tmp_path, tool="kperf")
    assert outcome.reason is None
    assert outcome.workload.bits_per_second == 8e9
    assert outcome.workload.client_argv[:5] == [CLIENT, "--src", "fd01::1", "--dst", "fd01::2"]


def test_a_result_of_a_test_that_did_not_last_so_long(tmp_path, programs):
    program = tmp_path / CLIENT
    program.write_text(program.read_text().replace("time.sleep", "float"))
    outcome = run(tmp_path, tool="kperf")
    assert re.fullmatch(
        r"client: kperf says that it measured for 1 s, and was there for 0\.\d+ s", outcome.reason
    )


def test_without_its_programs_it_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
    words = r"kperf-client and kperf-server not in PATH \(build kperf"
    with pytest.raises(MissingCapability, match=words):
        TOOLS["kperf"].require(parse_options({"tool": "kperf", "from": "client", "to": "server"}))
    outcome = run(tmp_path, tool="kperf")
    assert re.search(words, outcome.reason)
    assert outcome.workload.client_argv[0] == CLIENT
