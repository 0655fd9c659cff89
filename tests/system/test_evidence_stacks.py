"""Stacks and profile of a real flow, by perf."""

import shutil
import socket
import threading
import time

import pytest

from testbed.errors import MissingCapability
from testbed.evidence import perf
from testbed.evidence.collectors import collectors_for
from testbed.evidence.spec import CollectSpec
from testbed.evidence.stacks import PacketStacks
from testbed.topology.lab import open_lab


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_stacks_of_large_packets_lead_through_tcp():
    stacks = PacketStacks("size > 30000")
    try:
        with open_lab("veth-pair") as lab:
            stacks.start(lab)
            before = lab.counters()
            send(lab, seconds=1)
            after = lab.counters()
            found = stacks.stop()["stacks"]
    finally:
        stacks.close()
    crossed = after["client:veth0"].tx_packets - before["client:veth0"].tx_packets
    assert {stack.direction for stack in found} == {"rx", "tx"}
    assert all(stack.device == "veth0" and stack.largest > 30000 for stack in found)
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


def test_without_perf_the_capability_is_named(monkeypatch):
    monkeypatch.setattr(perf.shutil, "which", lambda program: None)
    with pytest.raises(MissingCapability, match="perf is not installed: apt-get install linux-perf"):
        collectors_for(CollectSpec(collector="none", profile=True))
