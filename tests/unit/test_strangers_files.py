"""Every field of both files that reaches a path, a command line, netlink or a sysctl, with anything in it.

What comes of it is one line with file and line, or a value within its bounds.
"""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.experiments.resolve import load_experiment
from testbed.nodes.sysctl_files import ROOT, parts
from testbed.topology.loading import parse_topology
from testbed.topology.plan import plan
from testbed.yamlfile import parse

# Numbers at the bounds of what the kernel takes, and paths, options, patterns and control characters.
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.sampled_from([0, -1, 2**16, 2**31, 2**32, 2**63, 2**64, 8191, 8192]),
    st.floats(),
)
PIECES = st.sampled_from(
    [
        *("net", "ipv4", "conf", "eth0", "/", ".", "..", "-", "--", "=", ",", ":", "*", "%", "$", "\0", "\n"),
        *("\x1b", "/etc/cron.d/x", "tmp", "logfile", "0", "1K", "veth0", "client", "é", "\u202e", "\ud800"),
        *(" ", "1e999"),
    ]
)
WORDS = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=8).map("".join))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
LINE = re.compile(r"f\.yaml:\d+: .")

TOPOLOGY = {
    "nodes": {
        "a": {
            "devices": {
                "veth0": {"kind": "veth", "peer": "b:veth0", "mtu": 1500, "addresses": ["10.1.0.1/24"]},
                "br0": {"kind": "bridge", "ports": []},
                "tap0": {"kind": "tap", "to": "b:tap0"},
                "vx0": {"kind": "vxlan", "id": 1, "remote": "10.1.0.2", "dev": "veth0"},
                "vl0": {"kind": "vlan", "id": 1, "dev": "veth0"},
                "nic0": {"kind": "physical"},
            },
            "routes": [{"to": "10.2.0.0/16", "via": "10.1.0.2", "dev": "veth0"}],
            "neighbours": [{"to": "10.1.0.2", "dev": "veth0", "lladdr": "02:00:00:00:00:01"}],
            "sysctls": {"net.ipv4.ip_forward": 1},
        },
        "b": {"pump": {"cpus": [0]}, "devices": {}},
    }
}
DEVICE_KEYS = [
    *("kind", "peer", "to", "dev", "ports", "mac", "mtu", "txqueuelen", "gso_max_size", "gro_ipv4_max_size"),
    *(
        "gso_max_segs",
        "num_tx_queues",
        "qdisc",
        "rps_cpus",
        "xps_cpus",
        "features",
        "addresses",
        "id",
        "remote",
    ),
    *("dstport", "mode", "fdb", "threaded"),
]
EXPERIMENT = {
    "topology": "veth-pair",
    "workload": {"tool": "iperf3", "from": "client", "to": "server"},
    "states": {"one": {}, "two": {}},
}
TOOLS = ["iperf3", "netperf", "kperf", "zerocopy", "flows"]
WORKLOAD_KEYS = [
    *(
        "tool",
        "from",
        "to",
        "address",
        "family",
        "duration",
        "omit",
        "timeout",
        "port",
        "client_port",
        "length",
    ),
    *(
        "window",
        "congestion",
        "bind_device",
        "mss",
        "tos",
        "args",
        "server_args",
        "test_args",
        "test",
        "streams",
    ),
    *("control_port", "pages", "request", "flows", "bitrate", "interval", "pin_offset", "tx_memory"),
]
SECTIONS = [
    *(
        "topology",
        "cpus",
        "settings",
        "sysctls",
        "requires",
        "kernel",
        "protocol",
        "collect",
        "states",
        "matrix",
    ),
    *("compare", "expect", "parameters", "workload", "description", "overrides"),
]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def changed(base, path, value):
    """A copy of `base` with `value` at `path`."""
    copy = json.loads(json.dumps(base))
    inner = copy
    for part in path[:-1]:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner[part]
    inner[path[-1]] = value
    return copy


def one_line(error, pattern=LINE):
    assert str(error).isprintable()
    assert len(str(error)) < 2000
    assert pattern.match(str(error)), str(error)


def planned(value):
    """The operations of a topology that holds `value`, or None where it is refused in one line."""
    try:
        return plan(parse_topology(json.dumps(value), "f.yaml"))
    except InputError as error:
        one_line(error)
        return None


def within_bounds(operations):
    """What the operations carry to the kernel: names, numbers and files of the node alone."""
    for operation in operations:
        record = operation.as_record()
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", record["node"])
        if "device" in record:
            assert 0 < len(record["device"].encode()) <= 15
            assert not set(record["device"]) & set("/: \0\n") and record["device"] not in (".", "..", "all")
        if record["operation"] == "SetSysctl":
            file = Path(ROOT, *parts(record["name"]))
            assert file.is_relative_to("/proc/sys/net") and ".." not in file.parts
        for number in numbers(record):
            assert -1 <= number < 2**64


def numbers(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, int):
        yield value


@quick
@given(st.sampled_from(["veth0", "br0", "tap0", "vx0", "vl0", "nic0"]), st.sampled_from(DEVICE_KEYS), VALUES)
def test_any_value_of_a_device(device, key, value):
    path = ("nodes", "a", "devices", device, key)
    within_bounds(planned(changed(TOPOLOGY, path, value)) or [])


@quick
@given(WORDS)
@example("../x")
@example("all")
@example("é" * 8)
def test_any_name_of_a_device_and_of_a_node(name):
    within_bounds(planned(changed(TOPOLOGY, ("nodes", "a", "devices", name), {"kind": "dummy"})) or [])
    within_bounds(
        planned(
            changed(
                TOPOLOGY,
                (
                    "nodes",
                    "a",
                    "devices",
                    "v",
                ),
                {"kind": "veth", "peer": f"b:{name}"},
            )
        )
        or []
    )
    within_bounds(planned(changed(TOPOLOGY, ("nodes", name), {})) or [])


@quick
@given(WORDS | WORDS.map("net.{}".format) | WORDS.map("net/ipv4/conf/{}".format), st.one_of(NUMBERS, WORDS))
@example("net./etc/cron.d/x", 1)
@example("net.ipv4.conf.../etc", 1)
def test_any_sysctl(name, value):
    within_bounds(planned(changed(TOPOLOGY, ("nodes", "a", "sysctls"), {name: value})) or [])


@quick
@given(
    st.sampled_from([("routes", 0), ("neighbours", 0)]),
    st.sampled_from(["to", "via", "dev", "metric", "mtu", "lladdr"]),
    VALUES,
)
def test_any_route_and_neighbour(place, key, value):
    within_bounds(planned(changed(TOPOLOGY, ("nodes", "a", *place, key), value)) or [])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("experiments")


def resolved(folder, value):
    """The states of an experiment that holds `value`, or None where it is refused in one line."""
    file = folder / "f.yaml"
    file.write_text(json.dumps(value))
    try:
        return load_experiment(str(file)).states
    except InputError as error:
        one_line(error, re.compile(rf"{re.escape(str(folder))}/f\.yaml:\d+: ."))
        return None


def states_within_bounds(states):
    for name, state in states.items():
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+=,-]{0,99}", name)
        within_bounds(plan(state.topology))
        assert state.workload.nodes <= state.topology.nodes.keys()
        assert all(0 <= cpu <= 8191 for cpus in state.cpus.values() for cpu in cpus)
        for text in texts(state.workload.model_dump(mode="json")):
            assert "\0" not in text and "\n" not in text


def texts(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@quick
@given(st.sampled_from(TOOLS), st.sampled_from(WORKLOAD_KEYS), VALUES)
def test_any_value_of_a_workload(folder, tool, key, value):
    workload = {"tool": tool, "from": "client", "to": "server"}
    workload |= {"flows": [{"tool": "iperf3"}]} if tool == "flows" else {}
    states_within_bounds(resolved(folder, {**EXPERIMENT, "workload": {**workload, key: value}}) or {})


@quick
@given(st.sampled_from(SECTIONS), VALUES, st.booleans())
@example("topology", "../\0x.yaml", False)
@example("cpus", {"client": "0-999999999999"}, False)
@example("cpus", {"client": 2**70}, False)
@example("protocol", {"quiet_wait": 1e308, "retries": 2**63, "seed": 2**64}, False)
def test_any_section_of_an_experiment(folder, section, value, in_state):
    path = ("states", "one", section) if in_state else (section,)
    states_within_bounds(resolved(folder, changed(EXPERIMENT, path, value)) or {})


@quick
@given(st.sampled_from(["cpus", "settings", "sysctls", "states", "requires"]), WORDS, VALUES)
def test_any_name_in_a_section_of_an_experiment(folder, section, name, value):
    states_within_bounds(resolved(folder, changed(EXPERIMENT, (section, name), value)) or {})


@quick
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(list("{}[]&*<:,-?!|>'\"#%@` \nab1.")), max_size=40).map("".join)
)
def test_any_text_is_values_or_one_line(text):
    try:
        document = parse(text, "f.yaml")
    except InputError as error:
        one_line(error)
    else:
        json.dumps(document.value, allow_nan=False)


def test_devices_on_each_other_without_end_are_refused():
    devices = {f"v{n}": {"kind": "vlan", "dev": f"v{n + 1}", "id": 1} for n in range(2000)}
    devices["v2000"] = {"kind": "dummy"}
    assert planned({"nodes": {"a": {"devices": devices}}}) is None


def test_a_bridge_with_very_many_ports_is_looked_at_once():
    assert (
        planned({"nodes": {"a": {"devices": {"b": {"kind": "bridge", "ports": [*map(str, range(50_000))]}}}}})
        is None
    )
