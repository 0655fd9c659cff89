"""What is found by trying on the running kernel, compared with the kernel's own account of it."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import probing
from testbed.probing.devices import LINK_FINDERS, QDISC_FINDERS

DEVICES = [*LINK_FINDERS, *QDISC_FINDERS]


def ip_in_fresh_namespace(*commands):
    """`ip -d -j link show tried` after `commands`, in a namespace that ends with them."""
    script = "\n".join([*(f"ip {command}" for command in commands), "ip -d -j link show tried"])
    done = subprocess.run(["unshare", "-n", "sh", "-ec", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)[0]


@pytest.mark.requires("veth")
def test_veth_takes_no_mtu_above_the_one_found():
    largest = probing.find(["veth"]).values["veth.max_mtu"]
    held = ip_in_fresh_namespace("link add tried type veth", f"link set tried mtu {largest}")
    assert held["mtu"] == largest
    with pytest.raises(subprocess.CalledProcessError):
        ip_in_fresh_namespace("link add tried type veth", f"link set tried mtu {largest + 1}")


@pytest.mark.requires("veth")
def test_veth_sends_larger_packets_than_its_mtu():
    found = probing.find(["veth"]).values
    assert found["veth.tso_max_size"] >= 524280


@pytest.mark.requires("tap")
def test_a_tap_never_offers_big_tcp():
    """tun sets no tso_max_size: it keeps TSO_LEGACY_MAX_SIZE."""
    assert probing.find(["tap"]).values["tap.tso_max_size"] == 65536


@pytest.mark.requires("bpf")
def test_bpf_is_found_where_the_packet_size_program_loads():
    assert probing.find(["bpf"]).values == {"bpf": True}


def test_a_missing_kind_is_named_with_the_kernel_option_that_brings_it():
    found = probing.find(DEVICES)
    for name in DEVICES:
        assert found.has(name) or "CONFIG_" in found.why[name]


def test_the_machine_s_own_namespace_is_left_as_it_was():
    devices = Path("/sys/class/net")
    before = {path.name for path in devices.iterdir()}
    probing.find(DEVICES)
    assert {path.name for path in devices.iterdir()} == before


def test_no_descriptor_stays_open():
    probing.find(DEVICES)
    before = descriptors()
    probing.find(DEVICES)
    assert descriptors() == before


def descriptors():
    gc.collect()  # what earlier tests left for it to close
    return len(list(Path("/proc/self/fd").iterdir()))


def test_probe_tells_a_script_what_was_found_and_which_states_can_run():
    argv = [sys.executable, "-m", "testbed", "probe", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert record["capabilities"]["root"] is True
    assert set(record["why"]) == {name for name, value in record["capabilities"].items() if value is False}
    assert record["experiments"]["nagle"]["big-tcp"] == []
