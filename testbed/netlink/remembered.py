"""Cached encoding and decoding of pyroute2's attributes, so that a lab of 1000 nodes builds quickly.

One veth pair takes pyroute2 some 1500 calls and 0.4 ms to encode, one link 60 objects to decode, which is
more than the kernel takes for its part. But the devices of a lab have few different values, so nearly every
attribute comes again. Here pyroute2 encodes and decodes an attribute when it comes for the first time; the
layout of headers and the numbers of attributes are read from its tables. Used for links and addresses only,
the messages that are sent and read once for every device (docs/pyroute2.md has the figures).
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from pyroute2.netlink import NLA_F_NESTED, NLA_F_NET_BYTEORDER, nla, nlmsg

Fields = Iterable[tuple[str, str]]
Attribute = tuple[str, Hashable]
Kind = Any  # a class of pyroute2's, which has no types

REMEMBERED = 1 << 14
# A longer attribute holds counters or addresses, and seldom comes twice.
LONGEST_REMEMBERED = 40


def layout(fields: Fields) -> struct.Struct:
    """The struct of a header or of a message's fields, as pyroute2 lists them."""
    return struct.Struct("=" + "".join(form for _, form in fields))


MESSAGE_HEADER = layout(nlmsg.header)
ATTRIBUTE_HEADER = layout(nla.header)
_NUMBER = 0xFFFF & ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER)


def encode(kind: Kind, fields: Mapping[str, int], attributes: Iterable[Attribute], *encoded: bytes) -> bytes:
    """A message of `kind` without its header; attributes that are encoded already follow the others."""
    parts = [attribute(kind, name, value) for name, value in attributes]
    return b"".join((_fields(kind, fields), *parts, *encoded))


@lru_cache(REMEMBERED)
def attribute(kind: Kind, name: str, value: Hashable) -> bytes:
    """One attribute of a message of `kind`. KeyError for one that pyroute2 does not know, and leaves out."""
    message = kind()
    message["attrs"] = [(name, value)]
    message.encode()
    encoded = bytes(message.data[layout(kind.header).size + layout(kind.fields).size :])
    if not encoded:
        raise KeyError(name)
    return encoded


def holding(kind: Kind, name: str, *values: bytes) -> bytes:
    """An attribute of a message of `kind` whose value is encoded already: others, or a packed address."""
    value = b"".join(values)
    return ATTRIBUTE_HEADER.pack(ATTRIBUTE_HEADER.size + len(value), numbers(kind)[name]) + value


class Answer:
    """A message of the kernel's, read as one of pyroute2's: `answer["index"]`, `answer.get_attr("IFLA_MTU")`.

    An attribute is decoded on first use.
    """

    __slots__ = ("_data", "_fields", "_found", "_kind")

    def __init__(self, kind: Kind, data: bytes) -> None:
        """`data`: the whole message."""
        names, form = _form(kind)
        self._kind = kind
        self._fields = dict(zip(names, form.unpack_from(data, MESSAGE_HEADER.size), strict=True))
        self._found = _split(data, MESSAGE_HEADER.size + form.size)

    def __getitem__(self, field: str) -> int:
        value: int = self._fields[field]
        return value

    def get_attr(self, name: str, default: Any = None) -> Any:
        """The attribute's value as pyroute2 decodes it, `default` where the message has none."""
        data = self._found.get(numbers(self._kind)[name])
        if data is None:
            return default
        decode = _decoded if len(data) <= LONGEST_REMEMBERED else _decoded.__wrapped__
        return decode(self._kind, data)

    def packed(self, name: str) -> bytes | None:
        """The bytes of an address, as `ipaddress` takes them; None where the message has none."""
        data = self._found.get(numbers(self._kind)[name])
        return None if data is None else data[ATTRIBUTE_HEADER.size :]


@lru_cache(REMEMBERED)
def _decoded(kind: Kind, data: bytes) -> Any:
    """The value of one attribute, of a message that holds no other."""
    fields = bytes(_form(kind)[1].size)
    header = MESSAGE_HEADER.pack(MESSAGE_HEADER.size + len(fields) + len(data), 0, 0, 0, 0)
    message = kind(header + fields + data)
    message.decode()
    ((_, value),) = message["attrs"]
    return value


def _split(data: bytes, offset: int) -> dict[int, bytes]:
    """Each attribute with its header, by number."""
    found = {}
    end = len(data) - ATTRIBUTE_HEADER.size
    unpack = ATTRIBUTE_HEADER.unpack_from
    while offset <= end:
        length, number = unpack(data, offset)
        found[number & _NUMBER] = data[offset : offset + length]
        offset += (length + 3) & ~3 or len(data)
    return found


def _fields(kind: Kind, values: Mapping[str, int]) -> bytes:
    names, form = _form(kind)
    return form.pack(*(values.get(name, 0) for name in names))


@cache
def _form(kind: Kind) -> tuple[tuple[str, ...], struct.Struct]:
    """The names of the fields without padding, and their layout."""
    return tuple(name for name, form in kind.fields if not form.endswith("x")), layout(kind.fields)


@cache
def numbers(kind: Kind) -> dict[str, int]:
    """The attributes' numbers: pyroute2 counts them by their place in its table."""
    return {name: number for number, (name, *_) in enumerate(kind.nla_map)}
