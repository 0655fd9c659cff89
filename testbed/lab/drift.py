"""Asked beside held, for people and scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from testbed.devices import features as offloads
from testbed.devices.links.kind import End
from testbed.devices.settings import AT_CREATION, LINK_SETTINGS, Settings
from testbed.lab.read_back import Held, differences


@dataclass(frozen=True)
class Row:
    """One setting of one device. `asked` is None where the topology leaves it to the kernel."""

    device: str
    setting: str
    asked: Any
    held: Any
    drift: bool


def compare(end: End, asked: Settings, held: Held) -> list[Row]:
    """Every setting of a device, asked for or not; of the features only those asked for."""
    wrong = {difference.setting.split()[0] for difference in differences(asked, held)}
    link = asked.link_values()
    rows = [
        Row(str(end), name, link.get(name), held.values.get(name), name in wrong) for name in LINK_SETTINGS
    ]
    rows += [
        Row(str(end), name, getattr(asked, name), held.values.get(name), name in wrong)
        for name in AT_CREATION
        if getattr(asked, name) is not None
    ]
    rows += _tuned(end, asked, held, wrong)
    addresses = [str(address) for address in asked.addresses] or None
    rows.append(
        Row(str(end), "addresses", addresses, [str(held) for held in held.addresses], "addresses" in wrong)
    )
    for name, on in asked.features.items():
        different = offloads.wrong(name, asked.features, held.features) is not None
        rows.append(Row(str(end), name, on, on != different, different))
    return rows


def _tuned(end: End, asked: Settings, held: Held, wrong: set[str]) -> Iterator[Row]:
    """Qdisc, steering and threads, where they are asked for."""
    summary = held.summary()
    if asked.qdisc is not None:
        wanted = [asked.qdisc.kind, *(f"{k} {v}" for k, v in asked.qdisc.options().items())]
        there = [str(summary["qdisc"]), *(f"{k} {v}" for k, v in summary["qdisc_options"].items())]
        yield Row(str(end), "qdisc", wanted, there, "qdisc" in wrong)
    for name in ("rps_cpus", "xps_cpus"):
        cpus = getattr(asked, name)
        if cpus is not None:
            yield Row(str(end), name, [str(cpu) for cpu in cpus], _queues(summary[name]), name in wrong)
    if asked.threaded is not None:
        yield Row(str(end), "threaded", asked.threaded, summary["threaded"], "threaded" in wrong)


def _queues(cpus: list[list[int]]) -> list[str]:
    """The CPUs of all queues where they are the same, else queue by queue."""
    if all(queue == cpus[0] for queue in cpus):
        return [str(cpu) for cpu in cpus[0]] if cpus else []
    return [f"{number}: {' '.join(map(str, queue)) or 'none'}" for number, queue in enumerate(cpus)]


def as_text(rows: Iterable[Row]) -> str:
    """A table, one line a setting; `drift` marks what is held otherwise than asked."""
    lines = [("device", "setting", "asked", "held", "")]
    last = ""
    for row in rows:
        device = row.device if row.device != last else ""
        last = row.device
        lines.append((device, row.setting, _word(row.asked), _word(row.held), "drift" if row.drift else ""))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _word(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)
