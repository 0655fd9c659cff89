"""Generic netlink: requests to a family that the kernel knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import CTRL_CMD_GETFAMILY, GENL_ID_CTRL, NETLINK_GENERIC, ctrlmsg, genlmsg

from testbed.netlink.channel import Channel, Refusal
from testbed.netlink.request import decoded, request

_VERSION = 1


def open_generic(namespace: int) -> Channel:
    """A channel for `ask_family`, in the namespace of a descriptor."""
    return Channel(namespace, NETLINK_GENERIC)


def ask_family(
    channel: Channel, family: str, kind: type[genlmsg], command: int, attributes: Mapping[str, Any]
) -> bytes | Refusal:
    """The answer to a command, a message of `kind`, or the kernel's refusal (of the family's name too)."""
    question = _message(ctrlmsg, CTRL_CMD_GETFAMILY, {"CTRL_ATTR_FAMILY_NAME": family})
    known = channel.ask(request(question, GENL_ID_CTRL))
    if isinstance(known, Refusal):
        return known
    number = decoded(ctrlmsg, known).get_attr("CTRL_ATTR_FAMILY_ID")
    return channel.ask(request(_message(kind, command, attributes), number))


def _message(kind: type[genlmsg], command: int, attributes: Mapping[str, Any]) -> genlmsg:
    message = kind()
    message["cmd"], message["version"] = command, _VERSION
    message["attrs"] = list(attributes.items())
    return message
