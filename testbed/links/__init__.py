"""Link kinds: one file each, listed here. `kind.py` says what one consists of."""

from __future__ import annotations

from testbed.links import veth
from testbed.links.kind import LinkKind

KINDS: dict[str, LinkKind] = {kind.name: kind for kind in (veth.KIND,)}
