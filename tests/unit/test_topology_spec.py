"""What a topology file may say, and what each mistake in it is answered with."""

import pytest

from testbed.devices.links.kind import End
from testbed.devices.settings import Settings
from testbed.errors import InputError
from testbed.topology.loading import find_topology, parse_topology, shipped_topologies

PAIR = """nodes:
  client:
    devices:
      veth0: {kind: veth, peer: server:veth0, mtu: 1500}
  server:
    devices:
      veth0: {addresses: [10.1.0.2/24, fd01::2/64], mtu: 9000}
"""


def devices(text):
    return "nodes:\n  a:\n    devices:\n" + "".join(f"      {line}\n" for line in text.splitlines())


def test_the_peers_own_settings_stand_at_its_node():
    placed = parse_topology(PAIR).placed()
    assert placed[End("client", "veth0")].config.mtu == 1500
    assert placed[End("server", "veth0")].config.mtu == 9000
    assert placed[End("server", "veth0")].stated_by == End("client", "veth0")


def test_a_peer_need_not_be_stated_at_its_node():
    topology = parse_topology("nodes: {a: {devices: {v: {kind: veth, peer: b:w}}}, b: {}}")
    assert [str(end) for end in topology.placed()] == ["a:v", "b:w"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            PAIR.replace("mtu: 9000", "mtuu: 9"),
            "t.yaml:7: nodes.server.devices.veth0.mtuu: unknown key, did you mean 'mtu'",
        ),
        (
            PAIR.replace("mtu: 9000", "mtu: -9"),
            "t.yaml:7: nodes.server.devices.veth0.mtu: expected a size in bytes such as",
        ),
        (
            PAIR.replace("mtu: 1500", "addresses: [10.1.0.2/16]"),
            "t.yaml:7: server:veth0: duplicate address 10.1.0.2, client:veth0 has it",
        ),
        (
            PAIR.replace("server:veth0", "serve:veth0"),
            "t.yaml:4: client:veth0: peer serve:veth0: no node 'serve', did you mean 'server'?",
        ),
        (PAIR.replace("server:veth0", "server"), "'server' does not name an end as NODE:DEVICE"),
        (
            PAIR.replace("kind: veth", "kind: vet"),
            "t.yaml:4: nodes.client.devices.veth0: unknown link kind 'vet', did you mean 'veth'?",
        ),
        (
            devices("veth0123456789ab: {kind: veth, peer: a:w}"),
            "'veth0123456789ab' is 16 characters long, a device's name has at most 15 bytes",
        ),
        (devices("v: {kind: veth, peer: a:w0123456789abcdef}"), "is 17 characters long"),
        (devices("lo: {mtu: 1500}"), "every node has its lo already"),
        (devices("v: {kind: veth, peer: a:v}"), "t.yaml:4: a:v: a device cannot be its own peer"),
        (
            devices("v: {kind: veth, peer: a:w}\nx: {kind: veth, peer: a:w}"),
            "t.yaml:5: a:x: peer a:w is the peer of a:v already",
        ),
        (
            devices("v: {kind: veth, peer: a:w}\nw: {kind: veth, peer: a:x}"),
            "t.yaml:4: a:v: peer a:w is a link of its own",
        ),
        (
            devices("v: {kind: veth, peer: a:w, num_tx_queues: 4}\nw: {num_rx_queues: 2, rps_cpus: [0]}"),
            "t.yaml:4: a:v: num_tx_queues 4, but a:w has num_rx_queues 2: with RPS in use",
        ),
        (devices("v: {mtu: 1500}"), "t.yaml:4: a:v: no link makes this device"),
        (devices("v: {kind: veth}"), "the key 'peer' is missing"),
        (
            devices("v: {kind: veth, peer: a:w, addresses: [10.0.0.1]}"),
            "address 10.0.0.1 needs a prefix length, such as 10.0.0.1/24",
        ),
        (devices("v: {kind: veth, peer: a:w, mac: 01:00:5e:00:00:01}"), "is a multicast address"),
        ("nodes: {a: {sysctls: {kernel.panic: 1}}}", "'kernel.panic' is not a sysctl of a network namespace"),
        ("nodes: {a: {routes: [{to: 10.0.0.0/8}]}}", "a: route to 10.0.0.0/8 needs via or dev"),
        ("nodes: {a: {routes: [{to: 10.0.0.0/8, via: fd00::1}]}}", "is of the other family"),
        ("nodes: {a: {routes: [{to: 10.0.0.1/8, via: 10.0.0.1}]}}", "has host bits set"),
        ("nodes: {a b: {}}", "'a b' is not a node's name"),
        ("nodes: {}", "a topology needs at least one node"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(text, says):
    with pytest.raises(InputError) as caught:
        parse_topology(text, "t.yaml")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_come_on_top_by_pattern_the_later_winning():
    topology = parse_topology(PAIR)
    changed = topology.with_settings(
        {
            "*:veth0": Settings(gso_max_size=70000, features={"tso": False, "gro": True}),
            "client:veth0": Settings(gso_max_size=80000, features={"tso": True}),
        }
    )
    placed = changed.placed()
    client, server = placed[End("client", "veth0")].config, placed[End("server", "veth0")].config
    assert (client.gso_max_size, client.mtu, client.features) == (80000, 1500, {"tso": True, "gro": True})
    assert (server.gso_max_size, server.mtu, server.features) == (70000, 9000, {"tso": False, "gro": True})
    assert topology.placed()[End("client", "veth0")].config.gso_max_size is None


def test_a_pattern_that_names_nothing_is_an_error():
    with pytest.raises(InputError, match="'client:veth1' names no device of the topology, did you mean"):
        parse_topology(PAIR).with_settings({"client:veth1": Settings(mtu=1500)})


def test_a_setting_is_found_in_the_file_only_when_it_came_from_there():
    topology = parse_topology(PAIR, "t.yaml")
    end = End("client", "veth0")
    assert topology.where(end, "mtu", 1500) == "t.yaml:4: client:veth0"
    assert topology.where(end, "mtu", 9000) == "client:veth0"


def test_a_shipped_topology_is_found_by_name_and_a_file_by_its_path(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(PAIR)
    assert find_topology("veth-pair") == shipped_topologies()["veth-pair"]
    assert find_topology(mine) == mine


@pytest.mark.parametrize("name", ["veth-pear", "./veth-pair.yaml"])
def test_a_topology_that_does_not_exist_is_an_error(name):
    with pytest.raises(InputError, match=r"did you mean 'veth-pair'|no such file"):
        find_topology(name)


def test_a_topology_survives_its_own_serialisation():
    topology = parse_topology(PAIR)
    again = type(topology).model_validate(topology.model_dump(mode="json", exclude_unset=True))
    assert again.placed() == topology.placed()


@pytest.mark.parametrize("receiver", ["num_rx_queues: 3, rps_cpus: [0]", "num_rx_queues: 1, rps_cpus: [0]"])
def test_transmit_queues_may_be_more_where_the_kernel_does_not_mind(receiver):
    text = devices(f"v: {{kind: veth, peer: a:w, num_tx_queues: 4}}\nw: {{{receiver}}}")
    assert parse_topology(text, "t.yaml").nodes["a"].devices.keys() == {"v", "w"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            devices("v: {kind: veth, peer: a:w,\n  mtu: 1279, addresses: ['fd00::1/64']}"),
            "t.yaml:5: a:v: mtu 1279 is too small for its address fd00::1/64: IPv6 needs at least 1280",
        ),
        (
            devices(f"b: {{kind: bridge, ports: [{', '.join(f'p{i}' for i in range(1025))}]}}"),
            "t.yaml:4: nodes.a.devices.b.ports: 1025 ports, and a bridge has at most 1024",
        ),
        (devices("v: {kind: veth, peer: a:w, addresses: [0.0.0.0/24]}"), "is the unspecified address"),
        (devices("v: {kind: veth, peer: a:w, addresses: ['ff02::1/64']}"), "is a multicast address"),
        (devices("v: {kind: veth, peer: a:w, mac: '00:00:00:00:00:00'}"), "is all zeros"),
        (
            "nodes: {a: {routes: [{to: default, dev: v, metric: 99999999999}]}}",
            "nodes.a.routes.0.metric: input should be less than or equal to 4294967295",
        ),
    ],
)
def test_what_the_kernel_would_refuse_without_words_is_refused_with_its_rule(text, says):
    with pytest.raises(InputError) as caught:
        parse_topology(text, "t.yaml")
    assert says in str(caught.value)
