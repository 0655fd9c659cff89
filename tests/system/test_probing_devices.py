"""What is found by trying on the running kernel, compared with the kernel's own account of it."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import probing
from testbed.devices.links import KINDS
from testbed.kernels.cache import parse_config
from testbed.kernels.running import kernel_config
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


def test_what_is_found_is_what_the_kernel_was_built_with():
    """Where the option is a module, the module need not be installed: nothing is said of that."""
    built = parse_config((kernel_config() or b"").decode())
    if not built:
        pytest.skip("this kernel does not tell its configuration")
    options = {name: kind.kernel_option for name, kind in KINDS.items() if name in LINK_FINDERS}
    options |= {name: f"CONFIG_NET_SCH_{name.upper()}" for name in QDISC_FINDERS}
    assert options.keys() == set(DEVICES)
    found = probing.find(DEVICES)
    sure = {name: built.get(option) for name, option in options.items() if built.get(option) != "m"}
    assert {name: found.has(name) for name in sure} == {name: value == "y" for name, value in sure.items()}
    for name in sure:
        assert found.has(name) or f"(kernel option {options[name]})" in found.why[name]


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
