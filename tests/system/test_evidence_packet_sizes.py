"""Packet sizes of real flows: exact against the counters, whole flow and measured part, no leftovers."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.errors import MissingCapability
from testbed.evidence import libbpf
from testbed.evidence.af_packet import PacketSocketSizes
from testbed.evidence.bpf_sizes import BpfSizes
from testbed.evidence.collect import CollectSpec
from testbed.evidence.collectors import collectors_for, size_source
from testbed.evidence.mixed_sizes import MixedSizes
from testbed.evidence.packet_sizes import PacketSizes
from testbed.lab.lab import open_lab

pytestmark = pytest.mark.requires("bpf")

HEADERS = 14 + 40 + 8  # Ethernet, IPv6, UDP
LIMITS = ("gso_max_size", "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size")
PLACES_OF_A_CPU = 2 * 512  # PLACES << SET_BITS in packet_sizes.bpf.c
PROGRAM_NAMES = ("receive", "transmit", "take_back")


@pytest.fixture
def lab():
    with open_lab("veth-pair") as lab:
        yield lab


@pytest.fixture(scope="module")
def source():
    source = BpfSizes()
    yield source
    source.close()


def listen(address):
    return socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)


@contextmanager
def connection(lab, family=6):
    """A TCP connection from client to server, both ends in this process; the server's end is drained."""
    address = lab.address("server", family)
    with lab.nodes["server"].call(listen, address) as listener:
        port = listener.getsockname()[1]
        sender = lab.nodes["client"].call(socket.create_connection, (address, port))
        receiver, _ = listener.accept()
        drain = threading.Thread(target=read_to_end, args=(receiver,))
        drain.start()
        with sender:
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield sender
        drain.join()


def read_to_end(receiver):
    with receiver:
        while receiver.recv(1 << 20):
            pass


@contextmanager
def datagrams(lab):
    """A function that sends so many bytes from client to server, and returns when they are there.

    TCP would send some of them twice where the machine is busy and an ACK is late.
    """
    with (
        lab.nodes["server"].call(bound, lab.address("server", 6)) as receiver,
        lab.nodes["client"].call(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM) as sender,
    ):

        def send(size):
            sender.sendto(bytes(size), receiver.getsockname())
            receiver.recv(size)

        yield send


def bound(address):
    receiver = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    receiver.bind((address, 0))
    return receiver


def exact(lab, flow, *collectors):
    """What each collector recorded of `flow`; once more, as a run does it, where BPF missed packets."""
    for _ in range(10):
        for collector in collectors:
            collector.start(lab)
        flow(lab)
        records = [collector.stop() for collector in collectors]
        same = all(record["counters"] == records[0]["counters"] for record in records)
        if same and all(record["counters_match"] for record in records):
            break
    return records


def write(times, size, family=6):
    """A flow of so many writes of so many bytes over TCP."""

    def flow(lab):
        with connection(lab, family) as sender:
            for _ in range(times):
                sender.sendall(bytes(size))

    return flow


def send_each(*sizes):
    """A flow of one datagram of each size."""

    def flow(lab):
        with datagrams(lab) as send:
            for size in sizes:
                send(size)

    return flow


def packets(record, node, direction, size):
    return sum(
        entry.packets
        for entry in record["packet_sizes"]
        if (entry.node, entry.direction, entry.size) == (node, direction, size)
    )


def test_datagrams_are_counted_by_their_exact_size_at_both_ends(lab, source):
    (record,) = exact(lab, send_each(*[100] * 10), PacketSizes(source))
    assert record["counters_match"], record
    assert record["packet_sizes_meta"].collector == "bpf"
    assert packets(record, "client", "tx", HEADERS + 100) == 10
    assert packets(record, "server", "rx", HEADERS + 100) == 10


def test_bulk_flow_equals_the_counters_in_packets_and_bytes(lab, source):
    lab.set({"*:veth0": {"gso_max_size": 524280, "gro_max_size": 524280}})
    (record,) = exact(lab, write(100, 512000), PacketSizes(source))
    assert record["counters_match"], record
    largest = max(entry.size for entry in record["packet_sizes"])
    assert largest > 65535
    received = [e for e in record["packet_sizes"] if (e.node, e.direction) == ("server", "rx")]
    counted = record["counters"]["server:veth0"]
    assert sum(e.packets * e.size for e in received) == counted.rx_bytes
    assert {e.gso_size for e in received if e.size > 1514} == {1428}


def test_measured_part_leaves_out_what_went_before(lab, source):
    collector = PacketSizes(source)

    def flow(lab):
        with datagrams(lab) as send:
            send(200)
            collector.measuring()
            send(300)

    (record,) = exact(lab, flow, collector)
    parts = {e.size: (e.packets, e.measured_packets) for e in record["packet_sizes"] if e.node == "server"}
    assert parts[HEADERS + 200] == (1, 0)
    assert parts[HEADERS + 300] == (1, 1)


def test_rounds_do_not_see_each_other(source):
    collector = PacketSizes(source)
    for size in (150, 250):
        with open_lab("veth-pair") as lab:
            (record,) = exact(lab, send_each(size), collector)
            assert packets(record, "server", "rx", HEADERS + size) == 1
            assert packets(record, "server", "rx", HEADERS + 400 - size) == 0


@pytest.fixture
def one_cpu():
    """The test runs on one CPU, where the counts of what it sends are too."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


def test_more_kinds_of_packets_than_have_places_on_a_cpu_are_counted_each(lab, source, one_cpu):
    collector = PacketSizes(source)
    sizes = range(200, 1400)
    address = lab.address("server", 4)
    collector.start(lab)
    with (
        lab.nodes["server"].call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        lab.nodes["client"].call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind((address, 0))
        for size in sizes:
            sender.sendto(bytes(size), receiver.getsockname())
    record = collector.stop()
    assert record["counters_match"], record["packet_sizes_meta"]
    assert record["packet_sizes_meta"].lost == 0
    seen = {(e.direction, e.size): e.packets for e in record["packet_sizes"]}
    assert 2 * len(sizes) > PLACES_OF_A_CPU
    assert [seen.get((direction, 42 + size)) for direction in ("tx", "rx") for size in sizes] == [1] * (
        2 * len(sizes)
    )


def test_packet_hidden_from_the_programs_is_unseen_at_both_ends(lab, source):
    """The programs are detached before the last datagram, as a tracer that is not called would miss it."""

    def flow(lab):
        with datagrams(lab) as send:
            for _ in range(500):
                send(1000)
            source.stop()
            send(700)

    collector = PacketSizes(source)
    for _ in range(10):  # once more where packets were missed beside the hidden one
        collector.start(lab)
        flow(lab)
        record = collector.stop()
        unseen = record["packet_sizes_meta"].unseen
        if {one.packets for one in unseen.values()} == {1}:
            break
    assert set(unseen) == {"client:veth0 tx", "server:veth0 rx"}
    assert {(one.packets, one.bytes) for one in unseen.values()} == {(1, HEADERS + 700)}
    assert record["counters_match"] is False
    assert "invalid" not in record


def test_only_the_devices_asked_for_are_recorded_and_all_are_checked(lab, source):
    (record,) = exact(lab, send_each(1), PacketSizes(source, devices=["server:*"]))
    assert {entry.node for entry in record["packet_sizes"]} == {"server"}
    assert set(record["counters"]) == {"client:veth0", "server:veth0"}
    assert record["counters_match"]


def test_default_set_gives_the_fields_of_a_round(lab):
    collectors = collectors_for(CollectSpec())
    record = {}
    try:
        for collector in collectors:
            collector.start(lab)
        for collector in reversed(collectors):
            record |= collector.stop()
    finally:
        for collector in collectors:
            collector.close()
    assert {"packet_sizes", "packet_sizes_meta", "counters", "counters_match", "cpu"} <= set(record)
    assert len(record["cpu"].per_core) == os.cpu_count()


def histogram(record):
    """Packets by what both sources can see."""
    found = Counter()
    for e in record["packet_sizes"]:
        found[e.node, e.direction, e.size, e.gso_size, e.gso_segs] += e.packets
    return found


@pytest.mark.parametrize("family", [4, 6])
def test_packet_socket_gives_the_same_histogram_as_bpf(lab, source, family):
    lab.set({"*:veth0": dict.fromkeys(LIMITS, 524280)})
    collectors = [PacketSizes(source), PacketSizes(PacketSocketSizes())]
    by_bpf, by_socket = exact(lab, write(20, 512000, family), *collectors)
    collectors[1].close()
    assert by_socket["packet_sizes_meta"].collector == "af_packet"
    assert by_socket["packet_sizes_meta"].lost == 0
    assert by_socket["counters_match"]
    assert max(entry.size for entry in by_socket["packet_sizes"]) > 400_000
    assert histogram(by_bpf) == histogram(by_socket)


def test_merged_packets_are_compared_by_the_rule_for_gro(lab, source):
    """Software segmentation at the sender, GRO at the receiver: counters hold segments, sizes do not."""
    lab.set({"client:veth0": {"features": {"tso": False, "gso": False}}})
    lab.set({"server:veth0": {"features": {"gro": True}}})
    (record,) = exact(lab, write(10, 512000), PacketSizes(source))
    received = [e for e in record["packet_sizes"] if (e.node, e.direction) == ("server", "rx")]
    assert sum(e.packets for e in received) < record["counters"]["server:veth0"].rx_packets
    assert record["counters_match"], record["packet_sizes_meta"]
    rules = record["packet_sizes_meta"].rules
    assert rules["server:veth0 rx"].startswith("merged by GRO")
    assert rules["client:veth0 tx"] == "without Ethernet header"


def test_packet_socket_takes_over_where_bpf_cannot_run(monkeypatch):
    def refuse(self):
        raise MissingCapability("this kernel has no BTF")

    monkeypatch.setattr(BpfSizes, "__init__", refuse)
    source, reason = size_source()
    sizes = PacketSizes(source, reason=reason)
    with open_lab("veth-pair") as lab:
        sizes.start(lab)
        meta = sizes.stop()["packet_sizes_meta"]
    sizes.close()
    assert (meta.collector, meta.reason) == ("af_packet", "this kernel has no BTF")
    with pytest.raises(MissingCapability, match="no BTF"):
        collectors_for(CollectSpec(collector="bpf"))


def loaded_programs(pid):
    """Ids of the BPF programs that the process `pid` holds."""
    found = set()
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        if "prog_id" in lines:
            found.add(int(lines["prog_id"]))
    return found


HOLD = """
import time
from testbed.evidence.bpf_sizes import BpfSizes
source = BpfSizes()
source.watch([])
print("ready", flush=True)
time.sleep(60)
"""


def test_killed_process_leaves_no_program():
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    held = loaded_programs(process.pid)
    assert len(held) == len(PROGRAM_NAMES)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 10  # for the kernel to take them down
    while held & libbpf.program_ids() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not held & libbpf.program_ids(), "programs outlive the process that loaded them"


@pytest.mark.requires("macvlan")
def test_receive_side_that_bpf_cannot_see_is_seen_by_a_packet_socket():
    sizes = PacketSizes(MixedSizes())
    with open_lab("macvlan") as lab:
        (record,) = exact(lab, send_each(1000), sizes)
    sizes.close()
    received = [e for e in record["packet_sizes"] if (e.device, e.direction) == ("macvlan0", "rx")]
    assert HEADERS + 1000 in {e.size for e in received if e.node == "server"}
    assert record["packet_sizes_meta"].rules["server:macvlan0 rx"] == "seen by af_packet"
    assert record["counters_match"], record["packet_sizes_meta"]
