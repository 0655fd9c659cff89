"""testbed sizes and watch on a lab that is up."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice

import pytest

from testbed.cli.watch import sizes
from testbed.errors import InputError
from testbed.lab.named import attached

pytestmark = pytest.mark.requires("bpf")
LAB = f"evidence-{os.getpid()}"


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "testbed", *arguments], capture_output=True, text=True, check=False, **options
    )


@pytest.fixture(scope="module")
def lab():
    assert command("up", "veth-pair", "--name", LAB).returncode == 0
    yield LAB
    assert command("down", LAB).returncode == 0


@pytest.fixture
def datagrams(lab):
    """A thousand octets of payload by UDP from client to server, every 5 ms; they flow already."""
    send = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    s.sendto(bytes(1000), ('fd01::2', 9))\n"
        "    time.sleep(0.005)\n"
    )
    with attached(lab) as live:
        process = live.nodes["client"].start(
            [sys.executable, "-c", send], role="client", stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"ready\n"
        yield
        process.kill()


SIZE = 14 + 40 + 8 + 1000


def test_sizes_as_json_has_each_size_with_its_device(lab, datagrams):
    began = time.monotonic()
    found = json.loads(command("sizes", lab, "--for", "0.5s", "--json").stdout)
    took = time.monotonic() - began
    sent = [
        s for s in found["packet_sizes"] if (s["node"], s["direction"], s["size"]) == ("client", "tx", SIZE)
    ]
    received = [
        s for s in found["packet_sizes"] if (s["node"], s["direction"], s["size"]) == ("server", "rx", SIZE)
    ]
    assert sent
    assert sum(s["packets"] for s in received) > 10
    assert found["collector"] == "bpf"
    assert 0.5 <= found["seconds"] < took


def test_sizes_as_text_has_no_colour_and_a_bar(lab, datagrams):
    text = command("sizes", lab, "--for", "0.3", "--collector", "af_packet").stdout
    (line,) = [line for line in text.splitlines() if line.startswith(f"{SIZE:>10}")][:1]
    assert "#" in line
    assert "\x1b" not in text


def test_watch_prints_tables_into_a_pipe_until_it_is_interrupted(lab, datagrams):
    argv = [sys.executable, "-m", "testbed", "watch", lab, "--interval", "0.2"]
    watching = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = islice(watching.stdout, 100)  # of tables, the first one maybe before a datagram came
    seen = any(line.startswith("client:veth0") and str(SIZE) in line for line in lines)
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=20)
    assert watching.returncode == 0, errors
    assert seen


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lab": "no-such-lab"}, "no lab 'no-such-lab'"),
        ({"collector": "magic"}, "--collector magic: expected auto, bpf or af_packet"),
    ],
)
def test_bad_input_says_what_was_expected(lab, options, message):
    with pytest.raises(InputError, match=message):
        sizes(**{"lab": lab} | options)
