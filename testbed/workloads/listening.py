"""Find out whether a process listens on a port, to see that a server is ready."""

from __future__ import annotations

from pathlib import Path

_LISTEN = "0A"  # TCP_LISTEN in include/net/tcp_states.h


def listens(pid: int, port: int) -> bool:
    """Whether process `pid` listens on TCP `port` in the calling thread's namespace.

    The socket must be the process's own: another listener on the port means
    that the server is about to fail, not that it is ready.
    """
    # The process first: the kernel goes through the TCP sockets of all namespaces
    # for the tables (10 ms here), and a server that still loads has no socket.
    sockets = _sockets(pid)
    return bool(sockets) and not sockets.isdisjoint(_listening(port))


def _listening(port: int) -> set[str]:
    """Inodes of the sockets that listen on `port`."""
    found = set()
    for name in ("tcp", "tcp6"):
        table = Path("/proc/thread-self/net", name)
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        for fields in map(str.split, lines):
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _sockets(pid: int) -> set[str]:
    """Inodes of the sockets that `pid` holds; empty when it is gone."""
    found = set()
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = str(link.readlink())
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    except OSError:
        pass  # it ends, or closes a descriptor, as we look: what we saw so far stands
    return found
