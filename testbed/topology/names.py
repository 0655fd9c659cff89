"""Names of devices, nodes and labs: what the kernel, the file system and our own commands accept."""

from __future__ import annotations

import re

# IFNAMSIZ in include/uapi/linux/if.h, less the final zero byte.
LONGEST_DEVICE_NAME = 15
# isspace() of the kernel (lib/ctype.c) knows Latin-1: 0xa0 is a space there, also inside a UTF-8 character.
_SPACES = frozenset(b"\t\n\v\f\r \xa0")
# A device gets a folder below /proc/sys/net/ipv4/conf; these two are there (sysctl_dev_name_is_allowed).
_SYSCTL_FOLDERS = ("all", "default")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def device_name(name: str) -> str:
    """`name`, if the kernel makes a device of that name. ValueError with the rule otherwise.

    dev_valid_name and __dev_alloc_name in net/core/dev.c; `*` is our own wildcard.
    """
    octets = name.encode("utf-8", "surrogatepass")
    if len(octets) > LONGEST_DEVICE_NAME:
        length = f"{len(name)} characters long"
        length += f" ({len(octets)} bytes)" if len(octets) != len(name) else ""
        raise ValueError(f"'{name}' is {length}, a device's name has at most {LONGEST_DEVICE_NAME} bytes")
    if not name or name in {".", ".."}:
        raise ValueError(f"'{name}' is not a device's name: the kernel takes neither '', '.' nor '..'")
    if not name.isprintable() or re.search(r"[/:*%]", name):
        raise ValueError(f"{name!r} is not a device's name: no / : * % or control character")
    if spaces := _SPACES.intersection(octets):
        space = f"byte 0x{min(spaces):02x}, which is a space to the kernel"
        raise ValueError(f"{name!r} is not a device's name: no {'space' if name.isascii() else space}")
    if name in _SYSCTL_FOLDERS:
        raise ValueError(
            f"'{name}' is not a device's name: /proc/sys/net/ipv4/conf/{name} is there for every device"
        )
    if name == "lo":
        raise ValueError("every node has its lo already")
    return name


def node_name(name: str) -> str:
    """`name`, if a node may be called so: files and a namespace in /run/netns carry it. ValueError else."""
    return _file_name(name, "a node")


def lab_name(name: str) -> str:
    """The same for a lab."""
    return _file_name(name, "a lab")


def _file_name(name: str, whose: str) -> str:
    if not _FILE_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not {whose}'s name: letters, digits, . _ and -, "
            "a letter or digit first, at most 64 characters"
        )
    return name


def fits(name: str, pattern: str) -> bool:
    """Whether `pattern` names `name`: `*` stands for any text, every other character for itself."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), name) is not None
