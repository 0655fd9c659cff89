"""What the kernel holds for a node as a whole, and how it differs from what was asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from testbed.errors import InputError
from testbed.netlink import message, routing
from testbed.netlink.lacking import RT_TABLE_MAIN
from testbed.nodes.namespace import NamespaceNode
from testbed.nodes.sysctls import read_sysctl
from testbed.topology.spec import NodeSpec, Route
from testbed.yamlfile import Key

# The modules of tunnels make one in every namespace.
FALLBACK_DEVICES = {
    *("tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "sit0"),
    *("ip6tnl0", "ip6gre0", "ip6_vti0"),
}


def node_differences(node: NamespaceNode, asked: NodeSpec) -> Iterator[tuple[Key, str]]:
    """Sysctls, routes and neighbours held otherwise than asked: their key in the spec, and how."""
    yield from _sysctls(node, asked)
    if not (asked.routes or asked.neighbours):
        return
    links = map(message.Link, node.channel.dump(message.list_links()))
    indexes = {link.name: link.ifindex for link in links}
    yield from _routes(node, asked, indexes)
    yield from _neighbours(node, asked, indexes)


def extras(node: NamespaceNode, asked: NodeSpec, devices: Collection[str]) -> Iterator[tuple[str, str]]:
    """What somebody added to a node by hand: devices beside `devices`, routes, permanent neighbours.

    What it is (`device`, `route`, `neighbour`), and which. Not what the kernel or a routing daemon makes.
    """
    links = [message.Link(data) for data in node.channel.dump(message.list_links())]
    indexes = {link.name: link.ifindex for link in links}
    for name in indexes.keys() - {*devices, "lo"} - FALLBACK_DEVICES:
        yield "device", name
    names = {index: name for name, index in indexes.items()}
    for held in map(routing.decode_route, node.channel.dump(routing.list_routes())):
        ours = any(_same_way(route, held, indexes) for route in asked.routes)
        if held.table == RT_TABLE_MAIN and held.by_hand and not ours:
            via = f" via {held.via}" if held.via else ""
            device = f" dev {names[held.ifindex]}" if held.ifindex in names else ""
            yield "route", f"{held.to}{via}{device}"
    stated = {(indexes.get(neighbour.dev), str(neighbour.to)) for neighbour in asked.neighbours}
    for entry in map(routing.decode_neighbour, node.channel.dump(routing.list_neighbours())):
        if entry.permanent and entry.address and (entry.ifindex, entry.address) not in stated:
            yield "neighbour", f"{entry.address} dev {names.get(entry.ifindex, entry.ifindex)}"


def _sysctls(node: NamespaceNode, asked: NodeSpec) -> Iterator[tuple[Key, str]]:
    for name, value in asked.sysctls.items():
        try:
            held = node.call(read_sysctl, name)
        except InputError:  # gone with IPv6 on its device
            held = "none"
        if held != " ".join(str(value).split()):
            yield ("sysctls", name), f"asked {name} {value}, the kernel holds {held}"


def _routes(node: NamespaceNode, asked: NodeSpec, indexes: dict[str, int]) -> Iterator[tuple[Key, str]]:
    held = map(routing.decode_route, node.channel.dump(routing.list_routes()))
    main = [route for route in held if route.table == RT_TABLE_MAIN]
    for position, route in enumerate(asked.routes):
        candidates = [other for other in main if _same_way(route, other, indexes)]
        if not candidates:
            yield ("routes", position), f"asked a route to {route.to}, the kernel holds none like it"
        elif all(candidate.metrics != route.metrics() for candidate in candidates):
            held_metrics = candidates[0].metrics or "none"
            yield (
                ("routes", position),
                f"route to {route.to}: asked metrics {route.metrics()}, the kernel holds {held_metrics}",
            )


def _same_way(asked: Route, held: routing.Route, indexes: dict[str, int]) -> bool:
    default = asked.to == "default"
    same_to = held.to.prefixlen == 0 and held.to.version == asked.family if default else held.to == asked.to
    same_metric = asked.metric is None or held.metric == asked.metric
    same_dev = asked.dev is None or held.ifindex == indexes[asked.dev]
    return same_to and held.via == asked.via and same_metric and same_dev


def _neighbours(node: NamespaceNode, asked: NodeSpec, indexes: dict[str, int]) -> Iterator[tuple[Key, str]]:
    if not asked.neighbours:
        return
    held = {
        (neighbour.ifindex, neighbour.address): neighbour.mac
        for neighbour in map(routing.decode_neighbour, node.channel.dump(routing.list_neighbours()))
    }
    for position, neighbour in enumerate(asked.neighbours):
        mac = held.get((indexes[neighbour.dev], str(neighbour.to)), "none")
        if mac != neighbour.lladdr:
            yield (
                ("neighbours", position),
                f"asked {neighbour.to} at {neighbour.lladdr}, the kernel holds {mac}",
            )
