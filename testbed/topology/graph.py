"""Draw a topology: text for the terminal, mermaid and dot for documents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.devices.links import KINDS
from testbed.devices.links.kind import End
from testbed.text_columns import aligned
from testbed.topology.spec import Placed, Topology


@dataclass(frozen=True)
class Edge:
    """What joins two devices: a wire (a pair, a pump), a bridge and its port, an upper and a lower device."""

    one: End
    other: End
    relation: Literal["wire", "port", "on"]
    label: str


def edges(topology: Topology) -> list[Edge]:
    """Every join of two devices, in the file's order."""
    return list(_edges(topology))


def text(topology: Topology) -> str:
    """Node by node, each device with its addresses and what it is joined to."""
    joins: dict[End, list[Edge]] = {}
    for edge in _edges(topology):
        for end in {edge.one: None, edge.other: None}:
            joins.setdefault(end, []).append(edge)
    lines: list[str] = []
    for node, devices in _by_node(topology).items():
        lines.append(node)
        rows = [_row(device, joins.get(device.end, ())) for device in devices]
        lines += ["  " + line for line in aligned(rows)]
    return "\n".join(lines) + "\n"


def mermaid(topology: Topology) -> str:
    """A mermaid flowchart: a box for each node, its devices inside."""
    arrows = {"wire": "---", "port": "-.-", "on": "-->"}
    lines = ["flowchart LR"]
    for node, devices in _by_node(topology).items():
        lines.append(f"  subgraph {node}")
        lines += [f'    {_id(device.end)}["{_title(device, "<br/>")}"]' for device in devices]
        lines.append("  end")
    for edge in _edges(topology):
        lines.append(f"  {_id(edge.one)} {arrows[edge.relation]}|{edge.label}| {_id(edge.other)}")
    return "\n".join(lines) + "\n"


def dot(topology: Topology) -> str:
    """A graphviz graph: a cluster for each node, its devices inside."""
    styles = {"wire": "solid", "port": "dotted", "on": "dashed"}
    lines = ["graph topology {", "  rankdir=LR; compound=true; node [shape=box];"]
    for node, devices in _by_node(topology).items():
        lines.append(f'  subgraph "cluster_{node}" {{ label="{node}";')
        lines += [f'    "{device.end}" [label="{_title(device, chr(92) + "n")}"];' for device in devices]
        lines.append("  }")
    for edge in _edges(topology):
        style = styles[edge.relation]
        lines.append(f'  "{edge.one}" -- "{edge.other}" [label="{edge.label}", style={style}];')
    return "\n".join([*lines, "}"]) + "\n"


FORMS: dict[str, Callable[[Topology], str]] = {"text": text, "mermaid": mermaid, "dot": dot}


def _edges(topology: Topology) -> Iterator[Edge]:
    for end, device in topology.placed().items():
        if device.stated_by != end:
            continue
        kind = KINDS[device.kind]
        peer = kind.peer(device.config)
        if peer is not None:
            yield Edge(end, peer, "wire", "pump" if kind.pumped else kind.name)
        for port in kind.ports(device.config):
            yield Edge(end, End(end.node, port), "port", "port")
        for lower in kind.lowers(device.config):
            yield Edge(end, End(end.node, lower), "on", kind.name)


def _row(device: Placed, joins: Sequence[Edge]) -> tuple[str, str, str, str]:
    mtu = "" if device.config.mtu is None else f"mtu {device.config.mtu}"
    addresses = " ".join(str(address) for address in device.config.addresses)
    return device.end.device, device.kind, _joins(device, joins), f"{mtu} {addresses}".strip()


def _joins(device: Placed, joins: Sequence[Edge]) -> str:
    """What the device is joined to by its `joins`, seen from it."""
    parts = []
    for edge in joins:
        upper = edge.one == device.end
        other = edge.other if upper else edge.one
        arrows = {"wire": "<->", "port": "has port" if upper else "port of", "on": "on" if upper else "under"}
        parts.append(f"{arrows[edge.relation]} {other if edge.relation == 'wire' else other.device}")
    tunnel = KINDS[device.kind].tunnel(device.config) if device.stated_by == device.end else None
    if tunnel is not None:
        parts.append("to " + ", ".join(str(remote) for remote in tunnel.remotes))
    return ", ".join(parts)


def _by_node(topology: Topology) -> dict[str, list[Placed]]:
    """The devices of every node, those without any included, in the file's order."""
    devices: dict[str, list[Placed]] = {node: [] for node in topology.nodes}
    for end, device in topology.placed().items():
        devices[end.node].append(device)
    return devices


def _title(device: Placed, newline: str) -> str:
    addresses = [str(address) for address in device.config.addresses]
    return newline.join([f"{device.end.device} ({device.kind})", *addresses])


def _id(end: End) -> str:
    """A mermaid identifier: letters, digits and underscores."""
    return "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in f"{end.node}.{end.device}")
