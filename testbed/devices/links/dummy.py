"""dummy: a device without a link. It counts and drops every packet that it sends."""

from __future__ import annotations

from typing import Literal

from testbed.devices.links.kind import Link, LinkKind, Probe
from testbed.devices.operations import CreateLink, Operation
from testbed.devices.settings import Settings


class DummyConfig(Settings):
    kind: Literal["dummy"]


def create(link: Link) -> list[Operation]:
    return [CreateLink(link.node, link.name, "dummy", link.config.link_values())]


KIND = LinkKind(name="dummy", config=DummyConfig, kernel_option="CONFIG_DUMMY", create=create, probe=Probe())
