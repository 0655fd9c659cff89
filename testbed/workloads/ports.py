"""Reserve the fixed ports of flows, so that the kernel does not pick them as ephemeral ports."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from testbed.nodes.node import Node
from testbed.nodes.sysctl_files import read_sysctl, write_sysctl

# For each network namespace: what connect() and bind() to port 0 must not take. Who names a port gets it.
RESERVED = "net.ipv4.ip_local_reserved_ports"


@contextmanager
def reserved(nodes: Mapping[str, Node], ports: Collection[int]) -> Iterator[None]:
    """Keep `ports` free in `nodes`, beside those that are reserved there already.

    A client's fixed ports lie in the range of which its own control connection
    takes one (net.ipv4.ip_local_port_range): without this, sometimes one of these.
    """
    with ExitStack() as stack:
        for node in nodes.values():
            before = node.call(read_sysctl, RESERVED)
            # An empty write changes nothing; an end of line empties the list.
            stack.callback(node.call, write_sysctl, RESERVED, before or "\n")
            node.call(write_sysctl, RESERVED, ",".join(filter(None, [before, *map(str, sorted(ports))])))
        yield
