"""Link kinds: one file each, listed here. `kind.py` says what one consists of."""

from __future__ import annotations

from testbed.devices.links import (
    bridge,
    dummy,
    geneve,
    ipvlan,
    macvlan,
    netkit,
    physical,
    tap,
    veth,
    vlan,
    vxlan,
)
from testbed.devices.links.kind import LinkKind

KINDS: dict[str, LinkKind] = {
    module.KIND.name: module.KIND
    for module in (veth, bridge, tap, vxlan, geneve, netkit, macvlan, ipvlan, vlan, dummy, physical)
}
