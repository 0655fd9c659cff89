"""Kernel log messages of a round, and faults among them. The log belongs to the machine, not the lab."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from testbed.errors import MissingCapability
from testbed.evidence.kernel_log_rules import findings, judge
from testbed.lab.lab import Lab

# Worth a line in the record beside what the rules find, though the round stands.
NOTED = r"\b(veth|vxlan|geneve|bridge|br|bond|vlan|tun|tap|eth|TCP|UDP|IPv[46]|netdev|skb|neighbour)\d*\b"
NOTED_LEVEL = 4  # KERN_WARNING and worse

# What stands around the output of WARN() and BUG(): include/linux/bug.h, print_oops_end_marker().
_CUT_HERE = "------------[ cut here ]------------"
_END_TRACE = "---[ end trace "

# Documentation/admin-guide/tainted-kernels.rst, bit by bit.
TAINTS = "PFSRMBUDAWCIOELKXTNJ"
# Machine check, bad page, died, warned, soft lockup. The others tell of modules and of what users did.
FAULT_TAINTS = "MBDWL"

_TAINTED = Path("/proc/sys/kernel/tainted")


class KernelLog:
    """Collector: `kernel_log`, `kernel_faults`, `taint`. A fault makes the round invalid."""

    name = "kernel_log"

    def __init__(self) -> None:
        """MissingCapability where this user may not read the kernel's log."""
        try:
            self._log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise MissingCapability(f"/dev/kmsg: {os.strerror(error.errno or 0)}; run as root") from None
        self._taint = 0

    def start(self, lab: Lab) -> None:
        os.lseek(self._log, 0, os.SEEK_END)
        self._taint = tainted()

    def measuring(self) -> None:
        pass

    def stop(self) -> Mapping[str, Any]:
        before, after = self._taint, tainted()
        messages = [parse(record) for record in self._read()]
        found = faults(text for _, text in messages)
        added = "".join(letter for letter in taint_letters(after & ~before) if letter in FAULT_TAINTS)
        if added:
            found.append(f"tainted {added}")
        fields: dict[str, Any] = {
            "kernel_log": kept(messages),
            "kernel_faults": found,
            "taint": taint_letters(after),
        }
        return fields | ({"invalid": [f"kernel: {text}" for text in found]} if found else {})

    def close(self) -> None:
        os.close(self._log)

    def _read(self) -> list[str]:
        """The records since the last call; those that were overwritten unread are gone."""
        records = []
        while True:
            try:
                records.append(os.read(self._log, 8192).decode(errors="replace"))
            except BlockingIOError:
                return records
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise


def parse(record: str) -> tuple[int, str]:
    """Level (0 to 7) and text of a record of /dev/kmsg: `prio,seq,time,flags;text`, then its dictionary."""
    head, _, body = record.partition(";")
    return int(head.split(",")[0]) & 7, body.split("\n")[0]


def kept(messages: Iterable[tuple[int, str]]) -> list[str]:
    """The texts worth a line in the record: those that matter, and all of what WARN() and BUG() print.

    What a warning is about stands in the line before the one that says WARNING.
    """
    texts, within = [], False
    for level, text in messages:
        within = within or _CUT_HERE in text
        if within or _matters(level, text):
            texts.append(text)
        within = within and not text.startswith(_END_TRACE)
    return texts


def faults(texts: Iterable[str]) -> list[str]:
    """The lines that are faults, each with the name of the rule that says so."""
    return [f"{f.rule.name}: {f.line}" for f in findings(texts) if f.rule.means in ("crash", "invalid")]


def tainted() -> int:
    """The kernel's taint bits."""
    return int(_TAINTED.read_text())


def taint_letters(bits: int) -> str:
    """The letters of the set bits, as an oops prints them; a bit without a letter as its number."""
    numbers = [number for number in range(bits.bit_length()) if bits >> number & 1]
    return "".join(TAINTS[number] if number < len(TAINTS) else f"({number})" for number in numbers)


def _matters(level: int, text: str) -> bool:
    return judge(text) is not None or (level <= NOTED_LEVEL and re.search(NOTED, text) is not None)
