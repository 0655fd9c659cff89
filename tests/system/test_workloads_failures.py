"""Each kind of failure of each tool: its reason in the round's record, in one line, and no process left."""

import re
import signal
import sys

import pytest
from workload_lab import cut_the_cable, in_the_middle, record, send

TOOLS = {
    "iperf3": {"tool": "iperf3", "length": "500K"},
    "netperf": {"tool": "netperf"},
    "zerocopy": {"tool": "zerocopy"},
}


def port_in_use(port):
    code = (
        f"import socket; s = socket.create_server(('::', {port}), family=10); print(flush=True); s.accept()"
    )

    def harm(lab):
        squatter = lab.nodes["server"].start([sys.executable, "-c", code], role="squatter", stdout=-1)
        with squatter.stdout as output:
            output.readline()

    return {"before": harm}


def killed(node):
    """The test would last much longer: what ends it is the harm."""
    return {"duration": 30, "at_start": in_the_middle(send(signal.SIGKILL, node))}


SILENT = {"timeout": 1, "at_start": send(signal.SIGSTOP, "server")}
CUT = {"timeout": 1, "at_start": in_the_middle(cut_the_cable)}
NO_ANSWER = r"client: no result 1 s after the end of the test, killed"
NO_NAME = r"workload\.address: client cannot resolve 'no-such-host\.invalid': \w+"

# The words are the tools' own where there are any; later versions of libiperf put more between them.
FAILURES = {
    "iperf3": {
        "server killed": (killed("server"), "server: ended by SIGKILL"),
        "client killed": (killed("client"), "client: ended by SIGKILL"),
        "server silent": (SILENT, NO_ANSWER),
        "cable cut": (CUT, NO_ANSWER),
        "port in use": (port_in_use(5201), "server: iperf3: error - unable to start listener"),
        "name": ({"address": "no-such-host.invalid"}, NO_NAME),
        "option": ({"args": ["--dscp", "nosuch"]}, "client: iperf3: parameter error - bad TOS value"),
        "server option": ({"server_args": ["--bind-dev", "veth9"]}, "server: iperf3: .*: No such device"),
        "no such control": ({"congestion": "nosuch"}, "client: .*unable to set TCP_CONGESTION"),
        "refused": ({"address": "fd01::1"}, "client: .*unable to connect to server.*: Connection refused"),
        "no route": ({"address": "fd09::1"}, "client: .*unable to connect .*: Network is unreachable"),
        "no such device": ({"bind_device": "veth9"}, "client: .*unable to connect .*: No such device"),
    },
    "netperf": {
        "server killed": (killed("server"), "client: .*; server: ended by SIGKILL"),
        "client killed": (killed("client"), "client: ended by SIGKILL"),
        "server silent": (SILENT, NO_ANSWER),
        "server silent, its timer too": (SILENT | {"test": "TCP_CRR"}, NO_ANSWER),
        "cable cut": (CUT, NO_ANSWER),
        "port in use": (port_in_use(12865), "server: Unable to start netserver"),
        "name": ({"address": "no-such-host.invalid"}, NO_NAME),
        "refused": ({"address": "fd01::1"}, "client: establish control: are you sure"),
    },
    "zerocopy": {
        "server killed": (killed("server"), "client: send: .*; server: ended by SIGKILL"),
        "client killed": (killed("client"), "client: ended by SIGKILL"),
        "server silent": (SILENT, NO_ANSWER),
        "cable cut": (CUT, NO_ANSWER),
        "port in use": (port_in_use(5401), r"server: receive: Address already in use \(errno 98\)"),
        "name": ({"address": "no-such-host.invalid"}, NO_NAME),
        "no such control": (
            {"congestion": "nosuch"},
            "client: send: congestion control nosuch: No such file",
        ),
        "refused": ({"address": "fd01::1"}, "client: send: Connection refused"),
    },
}
CASES = [(tool, kind) for tool, kinds in FAILURES.items() for kind in kinds]


@pytest.mark.parametrize(("tool", "kind"), CASES, ids=[f"{tool}: {kind}" for tool, kind in CASES])
def test_a_failure_is_a_reason_in_the_record_and_leaves_no_process(tmp_path, tool, kind):
    harm, words = FAILURES[tool][kind]
    found, harmful = record(tmp_path, **TOOLS[tool], **harm)
    assert not found.valid
    assert re.search(words, found.reason)
    assert "\n" not in found.reason
    assert found.workload.tool == tool
    assert found.workload.client_argv
    assert found.workload.bits_per_second is None
    assert harmful.left() == []
