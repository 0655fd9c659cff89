"""What tools print, read as records."""

import json

import pytest

from testbed.records.round import Workload
from testbed.workloads import parse_options
from testbed.workloads.iperf3_result import read as read_iperf3
from testbed.workloads.netperf_options import client_options, keys_of
from testbed.workloads.netperf_result import parse_keys
from testbed.workloads.netperf_result import read as read_netperf


def iperf3(**result):
    reading = read_iperf3(Workload(tool="iperf3"), json.dumps(result).encode(), b"")
    return reading, reading.workload


def stream(port, sent, received, retransmits=0):
    socket = port - 40000
    connected = {
        "socket": socket,
        "local_host": "fd01::1",
        "local_port": port,
        "remote_host": "fd01::2",
        "remote_port": 5201,
    }
    ends = {
        "sender": {"socket": socket, "bits_per_second": sent, "retransmits": retransmits},
        "receiver": {"socket": socket, "bits_per_second": received},
    }
    return connected, ends


def test_what_arrived_counts_not_what_was_sent():
    reading, workload = iperf3(
        end={
            "sum_sent": {"bits_per_second": 200.0, "bytes": 50, "retransmits": 3},
            "sum_received": {"bits_per_second": 100.0, "bytes": 25, "seconds": 2.0},
            "sender_tcp_congestion": "cubic",
        }
    )
    assert (workload.bits_per_second, workload.bytes, workload.retransmits) == (100.0, 25, 3)
    assert (workload.congestion, reading.measured_s) == ("cubic", 2.0)


def test_both_directions_of_bidir_add_up():
    _, workload = iperf3(
        end={
            "sum_sent": {"retransmits": 1},
            "sum_sent_bidir_reverse": {"retransmits": 2},
            "sum_received": {"bits_per_second": 10.0, "bytes": 1},
            "sum_received_bidir_reverse": {"bits_per_second": 5.0, "bytes": 2},
        }
    )
    assert (workload.bits_per_second, workload.bytes, workload.retransmits) == (15.0, 3, 3)


def test_intervals_are_those_of_the_measured_seconds_and_a_rest_is_none():
    def interval(seconds, bits, omitted=False, back=None):
        both = {} if back is None else {"sum_bidir_reverse": {"bits_per_second": back}}
        return {"sum": {"seconds": seconds, "bits_per_second": bits, "omitted": omitted}, **both}

    _, workload = iperf3(
        intervals=[
            interval(1.0001, 1.0, True),
            interval(0.9999, 2.0),
            interval(1.0, 3.0),
            interval(0.01, 9.0),
        ]
    )
    assert (workload.interval_s, workload.omitted_intervals, workload.intervals) == (1.0, [1.0], [2.0, 3.0])
    assert iperf3(intervals=[interval(1.0, 2.0, back=3.0)])[1].intervals == [5.0]
    assert iperf3(end={})[1].interval_s is None


def test_each_stream_has_its_own_figures_and_tuple():
    first, second = stream(40001, 9.0, 8.0), stream(40002, 5.0, 4.0, retransmits=7)
    _, workload = iperf3(start={"connected": [first[0], second[0]]}, end={"streams": [first[1], second[1]]})
    figures = [(flow.bits_per_second, flow.retransmits, flow.tuple.source_port) for flow in workload.flows]
    assert figures == [(8.0, 0, 40001), (4.0, 7, 40002)]
    assert workload.tuple.source_port == 40001


def test_udp_loss_and_jitter():
    _, workload = iperf3(
        end={
            "sum": {"bits_per_second": 1.0, "bytes": 1, "packets": 100, "lost_packets": 4, "jitter_ms": 0.02}
        }
    )
    assert (workload.udp.packets, workload.udp.lost, workload.udp.jitter_us) == (100, 4, 20.0)


@pytest.mark.parametrize("text", [b"", b'{"start": {', b"[]"])
def test_no_json_is_no_result_and_no_crash(text):
    reading = read_iperf3(Workload(tool="iperf3"), text, b"")
    assert reading.workload.bits_per_second is None


def test_the_error_that_only_the_json_holds():
    reading, _ = iperf3(error="error - unable to connect to server: Connection refused")
    assert reading.errors == {"client": "unable to connect to server: Connection refused"}


def netperf(test="TCP_STREAM", **given):
    return parse_options({"tool": "netperf", "from": "client", "to": "server", "test": test, **given})


def printed(options, **values):
    return "".join(f"{key}={values.get(key, '0')}\n" for key in keys_of(options)).encode()


STREAM = {
    "THROUGHPUT": "34440.00",
    "ELAPSED_TIME": "60.00",
    "RSR_SIZE": "131072",
    "LSS_SIZE": "16384",
    "LOCAL_SEND_SIZE": "16384",
    "REMOTE_BYTES_RECVD": "258300000000",
    "LOCAL_TRANSPORT_RETRANS": "12",
    "LOCAL_CONG_CONTROL": "cubic",
}


def test_a_netperf_stream_has_the_classic_columns():
    options = netperf()
    reading = read_netperf(Workload(tool="netperf"), printed(options, **STREAM), options)
    workload = reading.workload
    assert (workload.bits_per_second, workload.retransmits, reading.measured_s) == (34.44e9, 12, 60.0)
    sockets = workload.sockets
    assert (sockets.receive, sockets.send, sockets.message) == (131072, 16384, 16384)


def test_a_rate_of_transactions_is_also_a_throughput():
    options = netperf("TCP_RR", request=80_000, response=20_000)
    output = printed(
        options, THROUGHPUT="1000", ELAPSED_TIME="1", P99_LATENCY="74", LOCAL_CONG_CONTROL="cubic"
    )
    workload = read_netperf(Workload(tool="netperf"), output, options).workload
    assert workload.transactions_per_second == 1000
    assert workload.bits_per_second == 1000 * 100_000 * 8
    assert workload.latency_us["p99"] == 74


def test_a_congestion_control_that_was_refused_in_silence_is_an_error():
    options = netperf(congestion="reno")
    reading = read_netperf(Workload(tool="netperf"), printed(options, **STREAM), options)
    assert reading.errors["client"] == "congestion control reno was refused, it used cubic"


def test_sendfile_prints_columns_only():
    options = netperf("TCP_SENDFILE")
    line = b"131072  16384 131072    1.03     2448.36   \n"
    reading = read_netperf(Workload(tool="netperf"), line, options)
    assert (reading.workload.bits_per_second, reading.measured_s) == (2448.36e6, 1.03)
    assert reading.workload.sockets.message == 131072


def test_a_missing_key_is_no_result():
    options = netperf()
    output = b"\n".join(printed(options, **STREAM).splitlines()[:-1])
    assert read_netperf(Workload(tool="netperf"), output, options).workload.bits_per_second is None


def test_only_lines_of_key_and_value_are_read():
    assert parse_keys(b"warning: a=b\nP99_LATENCY=74\n\nnoise\n") == {"P99_LATENCY": "74"}


def test_ping_pong_command_line():
    options = netperf("TCP_RR", request=80_000, response=80_000, duration=2, nodelay=True)
    line = " ".join(client_options(options, "fd01::2"))
    assert line.startswith(
        "-H fd01::2,6 -p 12865 -t TCP_RR -l 2 -P 0 -- -6 -P 40001,5301 -r 80000,80000 -K cubic,cubic -D -k "
    )
