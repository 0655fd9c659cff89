"""Generic netlink: requests to a family that the kernel knows by name."""

from __future__ import annotations

import struct

from testbed.netlink.channel import Channel, Refusal
from testbed.netlink.message import Request, attributes, text_attribute

# include/uapi/linux/genetlink.h
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 0x10, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 1, 2

_HEADER = struct.Struct("=BBxx")
_VERSION = 1


def ask_family(channel: Channel, family: str, command: int, body: bytes) -> bytes | Refusal:
    """The answer to a command with the attributes `body`, or the kernel's no, to the family's name too.

    channel: of NETLINK_GENERIC.
    """
    named = text_attribute(CTRL_ATTR_FAMILY_NAME, family)
    known = channel.ask(Request(GENL_ID_CTRL, 0, _HEADER.pack(CTRL_CMD_GETFAMILY, _VERSION) + named))
    if isinstance(known, Refusal):
        return known
    (number,) = struct.unpack("=H", dict(attributes(known, _HEADER.size))[CTRL_ATTR_FAMILY_ID])
    return channel.ask(Request(number, 0, _HEADER.pack(command, _VERSION) + body))
