"""A NIC of this machine in a node: taken from the namespace of this process, and given back as it was."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from testbed.devices.settings import LINK_SETTINGS
from testbed.errors import InputError, TestbedError
from testbed.netlink import message, routing
from testbed.netlink.channel import Channel
from testbed.netlink.ethtool import Features
from testbed.netlink.namespaces import own_namespace
from testbed.netlink.request import Request
from testbed.yamlfile import did_you_mean

RESTORED = [name for name in LINK_SETTINGS if name in message.LINK_U32]


@dataclass(frozen=True)
class Borrowed:
    """A device that was taken, and its settings before."""

    name: str
    values: dict[str, int | str]
    features: dict[str, bool]
    addresses: tuple[message.Address, ...]
    up: bool


def take(name: str, namespace: int, record: Callable[[Borrowed], None]) -> int:
    """Move the device `name` into the namespace of a descriptor; its ifindex there.

    `record` gets what it holds before it is moved.
    InputError when this machine has no such device, or has its default route over it.
    """
    home = own_namespace()
    channel, features = Channel(home), Features(home)
    try:
        link = _find(channel, name)
        if link.ifindex in _of_default_routes(channel):
            raise InputError("this machine's default route goes over it; it is not taken")
        borrowed = Borrowed(
            name,
            {key: value for key in RESTORED if (value := link.get_attr(message.LINK_U32[key])) is not None},
            {key: state.active for key, state in features.get(name).items() if not state.fixed},
            tuple(_addresses(channel, link.ifindex)),
            link.up,
        )
        record(borrowed)
        _send(channel, name, "take it from this machine", message.move_link(name, namespace))
    finally:
        channel.close()
        features.close()
        os.close(home)
    inside = Channel(namespace)
    try:
        return _find(inside, name).ifindex
    finally:
        inside.close()


def give_back(borrowed: Borrowed, namespace: int) -> None:
    """Move it from the namespace of a descriptor to the one of this process, and set it as it was."""
    name = borrowed.name
    home = own_namespace()
    inside, channel, features = Channel(namespace), Channel(home), Features(home)
    try:
        _send(inside, name, "give it back", message.move_link(name, home))
        features.set(name, borrowed.features)
        index = _find(channel, name).ifindex
        addresses = [message.add_address(index, address) for address in borrowed.addresses]
        state = message.set_link(name, borrowed.values, up=borrowed.up)
        _send(channel, name, "set it as it was", state, *addresses)
    finally:
        inside.close()
        channel.close()
        features.close()
        os.close(home)


def _send(channel: Channel, name: str, what: str, *requests: Request) -> None:
    for refusal in channel.send(requests):
        raise TestbedError(f"{name}: cannot {what} ({refusal})")


def _find(channel: Channel, name: str) -> message.Link:
    links = [message.Link(data) for data in channel.dump(message.list_links())]
    for link in links:
        if link.name == name:
            return link
    hint = did_you_mean(name, [link.name for link in links])
    raise InputError(f"this machine has no device '{name}'{hint}")


def _addresses(channel: Channel, ifindex: int) -> Iterator[message.Address]:
    """Its addresses, without the link-local ones that the kernel makes by itself."""
    for address in map(message.decode_address, channel.dump(message.list_addresses())):
        if address.ifindex == ifindex and not address.address.is_link_local:
            yield address.address


def _of_default_routes(channel: Channel) -> set[int]:
    """The interface indexes of the default routes, IPv4 and IPv6, those with several next hops too."""
    routes = map(routing.decode_route, channel.dump(routing.list_routes()))
    return {index for route in routes if route.to.prefixlen == 0 for index in route.ifindexes}
