"""kperf's command line, and its output field by field."""

from testbed.records.round import Workload
from testbed.workloads import parse_options
from testbed.workloads.kperf import client_options
from testbed.workloads.kperf_result import read

# The layout of dump_result() in kperf's client.c; the source's figures are those of a public thread.
PRINTED = b"""kperf-client: Connected 1:cpu 3 | 1:cpu 5
kperf-client: == Source
kperf-client:   Tx211.242 Gbps (1584440279040 bytes in 60004741 usec)
kperf-client:   Rx  0.000 Gbps (0 bytes in 60004741 usec)
kperf-client:   TCP retrans reord rtt rttvar d_ce snd_wnd cwnd
kperf-client:             0     0 556      3    0 15499264 7650
kperf-client:   net CPU  3: usr: 0.01% sys: 0.08% idle:37.75% iow: 0.00% irq: 3.87% sirq:58.26%
kperf-client:   app CPU  4: usr: 0.06% sys:19.48% idle:77.23% iow: 0.00% irq: 1.19% sirq: 2.02%
kperf-client: == Target
kperf-client:   Tx  0.000 Gbps (0 bytes in 60000000 usec)
kperf-client:   Rx211.200 Gbps (1584000000000 bytes in 60000000 usec)
kperf-client:   TCP retrans reord rtt rttvar d_ce snd_wnd cwnd
kperf-client:             0     0  25     10    0   65536   10
kperf-client:   net CPU  5: usr: 0.00% sys: 0.00% idle: 1.00% iow: 0.00% irq: 0.00% sirq:99.00%
kperf-client:   app CPU  6: usr: 1.00% sys:49.00% idle:50.00% iow: 0.00% irq: 0.00% sirq: 0.00%
"""


def test_what_arrived_counts_and_the_source_tells_of_tcp():
    reading = read(Workload(tool="kperf"), PRINTED)
    workload = reading.workload
    assert (workload.bits_per_second, workload.bytes) == (211.2e9, 1_584_000_000_000)
    assert (workload.retransmits, reading.measured_s) == (0, 60.0)
    tcp = workload.tcp
    assert (tcp.rtt_us, tcp.rttvar_us, tcp.reord_seen, tcp.delivered_ce) == (556, 3, 0, 0)
    assert (tcp.snd_wnd, tcp.snd_cwnd) == (15499264, 7650)


def test_the_cores_of_both_ends_are_told_apart():
    cores = read(Workload(tool="kperf"), PRINTED).workload.cores
    assert cores["source app"].system == 19.48
    assert cores["source net"].softirq == 58.26
    assert cores["target net"].softirq == 99.0
    assert cores["target app"].idle == 50.0


def test_an_error_is_kperfs_own_last_line():
    reading = read(Workload(tool="kperf"), b"kperf-client: Connecting\nkperf-client: Failed to bind dmabuf\n")
    assert reading.errors == {"client": "kperf-client: Failed to bind dmabuf"}
    assert reading.workload.bits_per_second is None


def test_the_command_line_for_device_memory():
    options = parse_options(
        {
            "tool": "kperf",
            "from": "client",
            "to": "server",
            "duration": 60,
            "devmem_tx": True,
            "tx_memory": 128,
            "pin_offset": 1,
        }
    )
    assert " ".join(client_options(options, "fd01::1", "fd01::2")) == (
        "--src fd01::1 --dst fd01::2 --src-svc 18323 --dst-svc 18323 --time 60 --num-connections 1 "
        "--tcp-cc cubic --pin-off 1 --dmabuf-tx-size-mb 128 --devmem-tx"
    )
