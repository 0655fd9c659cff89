"""Read the sysctls, routes and neighbours of a node back, and compare them with the requested ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from testbed.errors import InputError
from testbed.netlink import message, routing
from testbed.netlink.lacking import RT_TABLE_MAIN
from testbed.nodes.namespace import NamespaceNode
from testbed.nodes.sysctl_files import read_sysctl
from testbed.topology.spec import NodeSpec, Route
from testbed.yamlfile import Key

# The modules of tunnels make one in every namespace.
FALLBACK_DEVICES = {
    *("tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "sit0"),
    *("ip6tnl0", "ip6gre0", "ip6_vti0"),
}


def node_differences(node: NamespaceNode, requested: NodeSpec) -> Iterator[tuple[Key, str]]:
    """Sysctls, routes and neighbours that differ from the requested: their key in the spec, and how."""
    yield from _sysctls(node, requested)
    if not (requested.routes or requested.neighbours):
        return
    links = map(message.Link, node.channel.dump(message.list_links()))
    indexes = {link.name: link.ifindex for link in links}
    yield from _routes(node, requested, indexes)
    yield from _neighbours(node, requested, indexes)


def extras(node: NamespaceNode, requested: NodeSpec, devices: Collection[str]) -> Iterator[tuple[str, str]]:
    """What somebody added to a node by hand: devices beside `devices`, routes, permanent neighbours.

    What it is (`device`, `route`, `neighbour`), and which. Not what the kernel or a routing daemon makes.
    """
    links = [message.Link(data) for data in node.channel.dump(message.list_links())]
    indexes = {link.name: link.ifindex for link in links}
    for name in indexes.keys() - {*devices, "lo"} - FALLBACK_DEVICES:
        yield "device", name
    names = {index: name for name, index in indexes.items()}
    for actual in map(routing.decode_route, node.channel.dump(routing.list_routes())):
        ours = any(_same_way(route, actual, indexes) for route in requested.routes)
        if actual.table == RT_TABLE_MAIN and actual.by_hand and not ours:
            via = f" via {actual.via}" if actual.via else ""
            device = f" dev {names[actual.ifindex]}" if actual.ifindex in names else ""
            yield "route", f"{actual.to}{via}{device}"
    stated = {(indexes.get(neighbour.dev), str(neighbour.to)) for neighbour in requested.neighbours}
    for entry in map(routing.decode_neighbour, node.channel.dump(routing.list_neighbours())):
        if entry.permanent and entry.address and (entry.ifindex, entry.address) not in stated:
            yield "neighbour", f"{entry.address} dev {names.get(entry.ifindex, entry.ifindex)}"


def _sysctls(node: NamespaceNode, requested: NodeSpec) -> Iterator[tuple[Key, str]]:
    for name, value in requested.sysctls.items():
        try:
            actual = node.call(read_sysctl, name)
        except InputError:  # gone with IPv6 on its device
            actual = "none"
        if actual != " ".join(str(value).split()):
            yield ("sysctls", name), f"requested {name} {value}, the kernel holds {actual}"


def _routes(node: NamespaceNode, requested: NodeSpec, indexes: dict[str, int]) -> Iterator[tuple[Key, str]]:
    actual = map(routing.decode_route, node.channel.dump(routing.list_routes()))
    main = [route for route in actual if route.table == RT_TABLE_MAIN]
    for position, route in enumerate(requested.routes):
        candidates = [other for other in main if _same_way(route, other, indexes)]
        if not candidates:
            yield ("routes", position), f"requested a route to {route.to}, the kernel holds none like it"
        elif all(candidate.metrics != route.metrics() for candidate in candidates):
            other = candidates[0].metrics or "none"
            yield (
                ("routes", position),
                f"route to {route.to}: requested metrics {route.metrics()}, the kernel holds {other}",
            )


def _same_way(requested: Route, actual: routing.Route, indexes: dict[str, int]) -> bool:
    default = requested.to == "default"
    same_to = (
        actual.to.prefixlen == 0 and actual.to.version == requested.family
        if default
        else actual.to == requested.to
    )
    same_metric = requested.metric is None or actual.metric == requested.metric
    same_dev = requested.dev is None or actual.ifindex == indexes[requested.dev]
    return same_to and actual.via == requested.via and same_metric and same_dev


def _neighbours(
    node: NamespaceNode, requested: NodeSpec, indexes: dict[str, int]
) -> Iterator[tuple[Key, str]]:
    if not requested.neighbours:
        return
    actual = {
        (neighbour.ifindex, neighbour.address): neighbour.mac
        for neighbour in map(routing.decode_neighbour, node.channel.dump(routing.list_neighbours()))
    }
    for position, neighbour in enumerate(requested.neighbours):
        mac = actual.get((indexes[neighbour.dev], str(neighbour.to)), "none")
        if mac != neighbour.lladdr:
            yield (
                ("neighbours", position),
                f"requested {neighbour.to} at {neighbour.lladdr}, the kernel holds {mac}",
            )
