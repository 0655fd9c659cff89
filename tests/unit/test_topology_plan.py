"""The order of operations: one place, one test for each rule."""

from testbed.devices.links.kind import End
from testbed.devices.operations import AddRoute, CreateLink, MakeNode, SetLink, SetSysctl, SetUp
from testbed.devices.settings import Settings
from testbed.topology.loading import parse_topology
from testbed.topology.plan import plan, plan_change

ROUTER = """nodes:
  client:
    devices:
      veth0: {kind: veth, peer: router:veth0, mtu: 1442, gso_ipv4_max_size: 128000, gso_max_size: 128000}
    routes: [{to: default, via: 10.1.0.2}]
  router:
    sysctls: {net.ipv4.ip_forward: 1, net.ipv6.conf.veth0.forwarding: 1}
    devices:
      veth0: {addresses: [10.1.0.2/24], gro_max_size: 70000}
"""


def steps(text=ROUTER):
    return plan(parse_topology(text))


def first(operations, kind, node=None):
    return next(i for i, o in enumerate(operations) if isinstance(o, kind) and node in (None, o.node))


def test_a_pair_carries_the_settings_of_both_ends_in_one_message():
    made = [operation for operation in steps() if isinstance(operation, CreateLink)]
    assert len(made) == 1
    assert made[0].values == {"mtu": 1442, "gso_max_size": 128000, "gso_ipv4_max_size": 128000}
    assert made[0].peer is not None
    assert (made[0].peer.node, made[0].peer.values) == ("router", {"gro_max_size": 70000})
    assert not [operation for operation in steps() if isinstance(operation, SetLink)]


def test_the_general_size_is_set_before_the_ipv4_size_however_it_is_written():
    change = Settings(gro_ipv4_max_size=1, gro_max_size=2, gso_ipv4_max_size=3, gso_max_size=4, mtu=5)
    pair = parse_topology("nodes: {a: {devices: {v: {kind: veth, peer: b:v}}}, b: {}}")
    (operation,) = plan_change(pair.with_settings({"a:v": change}), {End("a", "v"): change})
    assert isinstance(operation, SetLink)
    assert list(operation.values) == [
        "mtu",
        "gso_max_size",
        "gro_max_size",
        "gso_ipv4_max_size",
        "gro_ipv4_max_size",
    ]


def test_nodes_first_routes_last():
    operations = steps()
    assert [type(operation) for operation in operations[:2]] == [MakeNode, MakeNode]
    assert isinstance(operations[-1], AddRoute)


def test_a_nodes_sysctls_come_before_its_devices_and_a_devices_after_it():
    operations = steps()
    sysctls = [i for i, operation in enumerate(operations) if isinstance(operation, SetSysctl)]
    created = first(operations, CreateLink)
    assert sysctls[0] < created < sysctls[1]


def test_a_device_comes_up_with_its_addresses_on():
    words = [str(operation) for operation in steps() if operation.node == "router"]
    address = words.index("router: address add 10.1.0.2/24 dev veth0")
    assert address < words.index("router: link set veth0 up")
    assert first(steps(), SetUp, "router") > first(steps(), CreateLink)


BRIDGE = """nodes:
  switch:
    devices:
      vx0: {kind: vxlan, id: 7, remote: 10.1.0.9, dev: br0, gso_max_size: 70000}
      br0: {kind: bridge, ports: [port0], gso_max_size: 131072, addresses: [10.1.0.1/24]}
      port0: {kind: veth, peer: client:veth0, mtu: 1600}
  client: {}
"""


def test_lower_before_upper_and_enslave_before_limits():
    words = [str(operation) for operation in steps(BRIDGE) if operation.node == "switch"]
    port, bridge, enslaved, limited, tunnel = (
        next(i for i, word in enumerate(words) if part in word)
        for part in (
            "link add port0",
            "link add br0",
            "port0 master br0",
            "set br0 gso_max_size",
            "link add vx0",
        )
    )
    assert port < bridge < enslaved < limited < tunnel
    ups = [word.split()[-2] for word in words if word.endswith(" up")]
    assert ups.index("port0") < ups.index("br0") < ups.index("vx0")


def test_threads_come_after_up_and_the_qdisc_before():
    text = ROUTER.replace("mtu: 1442", "mtu: 1442, threaded: on, qdisc: fq, rps_cpus: [1]")
    kinds = [type(o).__name__ for o in steps(text) if o.node == "client"]
    order = ["SetQdisc", "SetSteering", "SetUp", "SetThreaded"]
    assert [kind for kind in kinds if kind in order] == order
