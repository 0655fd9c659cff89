"""Link kinds: one file each, listed here. `kind.py` says what one consists of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.devices.links.kind import LinkKind

# Those that are made here; a physical device is there already.
MADE = ("veth", "bridge", "tap", "vxlan", "geneve", "netkit", "macvlan", "ipvlan", "vlan", "dummy")


class _Kinds(Mapping[str, "LinkKind"]):
    """A kind's file, and pydantic with it, is imported when the kind is used: a guest that is
    probed, or a report, needs few or none of them, and in an emulated guest importing takes seconds."""

    names = (*MADE, "physical")

    def __getitem__(self, name: str) -> LinkKind:
        if name not in self.names:
            raise KeyError(name)
        kind: LinkKind = import_module(f"{__name__}.{name}").KIND
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


KINDS = _Kinds()
