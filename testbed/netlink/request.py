"""Netlink requests without their header, and conversion of pyroute2's messages to and from bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyroute2.netlink import nlmsg

from testbed.netlink.remembered import MESSAGE_HEADER


class Request(NamedTuple):
    """A message without its header, which the channel gives it with the sequence number."""

    type: int
    flags: int
    body: bytes


def request(message: nlmsg, type: int, flags: int = 0) -> Request:
    """A message of pyroute2's, filled in, as it is to be sent."""
    message.encode()
    return Request(type, flags, bytes(message.data[MESSAGE_HEADER.size :]))


def decoded(kind: Any, data: bytes) -> Any:
    """What a channel gave as an answer: a message of `kind`, decoded by pyroute2."""
    message = kind(data)
    message.decode()
    return message
