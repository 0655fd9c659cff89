"""Topologies drawn as text, mermaid and dot."""

import re
import sys

import pytest

from testbed.cli import main
from testbed.topology.graph import FORMS, dot, edges, mermaid, text
from testbed.topology.loading import load_topology, parse_topology, shipped_topologies


def test_edges_tell_wires_ports_and_lower_devices_apart():
    joined = {(str(edge.one), str(edge.other), edge.relation) for edge in edges(load_topology("bridge-tap"))}
    assert joined == {
        ("client:veth0", "switch:port0", "wire"),
        ("switch:br0", "switch:port0", "port"),
        ("switch:br0", "switch:tap0", "port"),
        ("switch:tap0", "guest:eth0", "wire"),
    }
    assert ("client:vxlan0", "client:veth0", "on") in {
        (str(edge.one), str(edge.other), edge.relation) for edge in edges(load_topology("vxlan"))
    }


def test_text_lists_each_device_below_its_node_with_what_it_is_joined_to():
    lines = text(load_topology("bridge-tap")).splitlines()
    assert lines[0] == "client"
    assert lines[1].split() == [
        "veth0",
        "veth",
        "<->",
        "switch:port0",
        "mtu",
        "1500",
        "10.1.0.1/24",
        "fd01::1/64",
    ]
    assert re.search(r"br0 +bridge +has port port0, has port tap0$", lines[3])


@pytest.mark.parametrize("name", sorted(shipped_topologies()))
def test_every_device_is_in_every_form(name):
    topology = load_topology(name)
    for form, draw in FORMS.items():
        drawing = draw(topology)
        assert all(end.device in drawing and end.node in drawing for end in topology.placed()), form
        assert drawing.endswith("\n")


@pytest.mark.parametrize(
    ("options", "status", "begins"),
    [
        ([], 0, "client\n"),
        (["--format", "dot"], 0, "graph topology {"),
        (["--format", "mermaid"], 0, "flowchart LR"),
        (["--format", "dott"], 2, "testbed: --format dott: no such format, did you mean 'dot'?"),
    ],
)
def test_the_command_prints_the_form_that_is_asked_for(options, status, begins, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["testbed", "graph", "veth-pair", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    output, errors = capsys.readouterr()
    assert (ended.value.code or 0) == status
    assert (output or errors).startswith(begins)


def test_dot_is_balanced_and_names_devices_in_full():
    drawing = dot(load_topology("vxlan"))
    assert drawing.count("{") == drawing.count("}")
    assert '"client:veth0" -- "server:veth0" [label="veth", style=solid];' in drawing


def test_mermaid_identifiers_are_words_and_each_is_declared():
    drawing = mermaid(load_topology("bridge-tap"))
    declared = set(re.findall(r"^ {4}(\w+)\[", drawing, re.MULTILINE))
    used = {
        word for line in drawing.splitlines() if "|" in line for word in (line.split()[0], line.split()[-1])
    }
    assert used <= declared
    assert len(declared) == 5


@pytest.mark.parametrize("form", FORMS)
def test_drawing_twice_as_many_nodes_takes_twice_as_many_steps(form):
    """Counted in calls of functions, which no other program on the machine changes."""

    def calls(nodes):
        topology = parse_topology(
            "nodes:\n"
            + "".join(
                f"  n{i}: {{devices: {{v: {{kind: veth, peer: 'm{i}:v'}}}}}}\n  m{i}: {{}}\n"
                for i in range(nodes)
            )
        )
        counted = 0

        def count(*_):
            nonlocal counted
            counted += 1

        sys.setprofile(count)
        try:
            FORMS[form](topology)
        finally:
            sys.setprofile(None)
        return counted

    assert calls(200) < 2.1 * calls(100)
