"""Options of workloads: what a file may say, and the command line that comes of it."""

import pytest

from testbed.errors import InputError
from testbed.workloads import parse_options
from testbed.workloads.iperf3 import Iperf3Options, client_options, server_options

BASE = {"tool": "iperf3", "from": "client", "to": "server"}


def options(**given):
    parsed = parse_options({**BASE, **given})
    assert isinstance(parsed, Iperf3Options)
    return parsed


def command(**given):
    return " ".join(client_options(options(**given), "fd01::2"))


def test_the_whole_client_command_line_in_iperf3s_own_options():
    line = command(
        duration=3,
        omit=1,
        length="500K",
        streams=4,
        window="4M",
        mss=1400,
        nodelay=True,
        tos=16,
        fq_rate="1G",
    )
    assert line == (
        "-c fd01::2 -p 5201 --cport 40001 -t 3 -O 1 -l 512000 -P 4 --fq-rate 1000000000 -w 4194304 "
        "-C cubic -M 1400 -S 16 -6 -N -J"
    )


def test_udp_names_no_congestion_control():
    assert "-C" not in command(udp=True, bitrate="1G").split()


def test_args_come_last():
    assert command(args=["--dscp", "cs1"]).endswith("-J --dscp cs1")


def test_the_server_serves_one_test_on_its_fixed_port():
    assert server_options(options(port=5300, family=4)) == ["-s", "-1", "-p", "5300", "-4", "-J"]


def test_options_survive_the_way_through_json():
    """A state travels to the kernel that measures it as JSON."""
    given = options(length="500K", omit=1, args=["--dscp", "cs1"])
    record = given.model_dump(mode="json", exclude_unset=True, by_alias=True)
    assert parse_options(record) == given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lenght": 1}, "workload.lenght: unknown key, did you mean 'length'?"),
        ({"length": "2M"}, "workload.length: input should be less than or equal to 1048576"),
        (
            {"length": "big"},
            "workload.length: expected a size in bytes such as 131072",
        ),
        ({"duration": 1.5}, "workload.duration: iperf3 takes whole seconds, got 1.5"),
        ({"reverse": True, "bidir": True}, "workload.bidir: reverse and bidir exclude each other"),
        ({"args": ["--logfile=x"]}, "workload.args.0: '--logfile=x': --logfile writes a file"),
        ({"family": 5}, "workload.family: input should be 4 or 6"),
        ({"tool": "iperf"}, "workload.tool: no tool 'iperf', did you mean 'iperf3'?"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(given, words):
    with pytest.raises(InputError) as error:
        options(**given)
    assert str(error.value).startswith(words)
    assert "\n" not in str(error.value)
