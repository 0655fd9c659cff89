"""Whether one node of a lab reaches another: by a TCP connection, so by IPv4 or IPv6 and everything below."""

import socket

PORT = 7777


def _listen(family):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", PORT))
    server.listen()
    server.settimeout(5)
    return server


def reaches(lab, source, target, version):
    """Send from `source` to the address of `target` and read it there; what arrived."""
    family = {4: socket.AF_INET, 6: socket.AF_INET6}[version]
    address = lab.address(target, version)
    with (
        lab.nodes[target].call(_listen, family) as server,
        lab.nodes[source].call(socket.create_connection, (address, PORT), 5) as client,
    ):
        client.sendall(b"packet")
        connection, _ = server.accept()
        with connection:
            return connection.recv(100)
