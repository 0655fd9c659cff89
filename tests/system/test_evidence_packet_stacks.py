"""Stacks and profile of a real flow, by perf."""

import os
import socket
import threading
import time

import pytest

from testbed.errors import MissingCapability
from testbed.evidence.collect import CollectSpec
from testbed.evidence.collectors import collectors_for
from testbed.evidence.packet_stacks import PacketStacks
from testbed.lab.lab import open_lab
from testbed.topology.loading import parse_topology

# perf tells devices by their names alone: one that nobody else has.
DEVICE = f"perf{os.getpid()}"
PAIR = f"""nodes:
  client: {{devices: {{{DEVICE}: {{kind: veth, peer: "server:{DEVICE}", addresses: [10.1.0.1/24]}}}}}}
  server: {{devices: {{{DEVICE}: {{addresses: [10.1.0.2/24]}}}}}}
"""


@pytest.mark.requires("perf")
def test_stacks_of_large_packets_lead_through_tcp():
    stacks = PacketStacks("size > 30000")
    try:
        with open_lab(parse_topology(PAIR)) as lab:
            stacks.start(lab)
            before = lab.counters()
            send(lab, seconds=1)
            after = lab.counters()
            found = stacks.stop()["stacks"]
    finally:
        stacks.close()
    crossed = after[f"client:{DEVICE}"].tx_packets - before[f"client:{DEVICE}"].tx_packets
    assert {stack.direction for stack in found} == {"rx", "tx"}
    assert all(stack.device == DEVICE and stack.largest > 30000 for stack in found)
    sent = sum(stack.samples for stack in found if stack.direction == "tx")
    assert 0 < 5 * sent < crossed, "one packet in ten is sampled"
    assert any("tcp_write_xmit" in stack.frames for stack in found if stack.direction == "tx")


def send(lab, seconds):
    """A TCP flow between two threads."""
    with lab.nodes["server"].call(socket.create_server, ("10.1.0.2", 0)) as listener:
        sender = lab.nodes["client"].call(socket.create_connection, listener.getsockname())
        receiver, _ = listener.accept()
        drain = threading.Thread(target=read_to_end, args=(receiver,))
        drain.start()
        end = time.monotonic() + seconds
        with sender:
            while time.monotonic() < end:
                sender.sendall(bytes(200_000))
        drain.join()


def read_to_end(receiver):
    with receiver:
        while receiver.recv(1 << 20):
            pass


def test_without_perf_the_capability_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        MissingCapability, match=r"perf: not installed, or not in PATH \(apt-get install linux-perf\)"
    ):
        collectors_for(CollectSpec(collector="none", profile=True))
