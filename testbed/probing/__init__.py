"""Finds, by trying, what this kernel and machine can do (names and values: testbed.capabilities).

A link kind is created in a throw-away namespace, a BPF program is loaded and
attached, a program is asked for its version. Nothing is concluded from a
kernel's version or from a file that merely exists.
"""

from __future__ import annotations

from collections.abc import Iterable

from testbed.capabilities import Capabilities
from testbed.probing import devices, devmem, running_kernel, tools

SECTIONS = {
    "kernel": running_kernel.FINDERS,
    "link kinds (bytes)": devices.LINK_FINDERS,
    "queueing disciplines": devices.QDISC_FINDERS,
    "tools": tools.FINDERS,
    "sending from device memory": devmem.FINDERS,
}
"""Finders by the name that can stand before the first dot, under the titles that `probe` shows."""

FINDERS = {name: finder for section in SECTIONS.values() for name, finder in section.items()}


def find(names: Iterable[str] | None = None) -> Capabilities:
    """The capabilities in `names` (`veth.max_mtu` finds all of `veth`), or everything there is to find.

    Takes some 10 ms for a link kind or a tool. A name that nobody can find is
    missing, and `why` says that it is unknown.
    """
    wanted = FINDERS if names is None else dict.fromkeys(name.partition(".")[0] for name in names)
    found = Capabilities()
    for name in wanted:
        finder = FINDERS.get(name)
        values, why = finder() if finder else ({name: False}, "unknown capability")
        found.values.update(values)
        if values.get(name) is False:
            found.why[name] = why
    return found
