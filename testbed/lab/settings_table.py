"""Requested and actual settings side by side, as a table and for scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from testbed.devices import features as offloads
from testbed.devices.links.kind import End
from testbed.devices.settings import AT_CREATION, LINK_SETTINGS, Settings
from testbed.lab.mending import Drift
from testbed.lab.read_back import ActualDevice, Difference
from testbed.text_columns import aligned


@dataclass(frozen=True)
class Row:
    """One setting of one device, or of a node as a whole.

    `requested` is None where the topology leaves it to the kernel; `built` is what the
    kernel chose then, where that is known and has drifted.
    """

    device: str
    setting: str
    requested: Any
    actual: Any
    drift: bool
    built: Any = None

    def record(self) -> dict[str, Any]:
        """For `testbed show --json`."""
        return {
            "device": self.device,
            "setting": self.setting,
            "requested": self.requested,
            "actual": self.actual,
            "drift": self.drift,
            "built": self.built,
        }


def compare(end: End, requested: Settings, actual: ActualDevice, drifted: Iterable[Difference]) -> list[Row]:
    """Every setting of a device, requested or not; of the features those requested and those that drifted."""
    found = {difference.setting.split()[0]: difference for difference in drifted}
    wrong = found.keys()
    link = requested.link_values()

    def row(name: str, value: Any) -> Row:
        built = found[name].requested if name in found and value is None else None
        return Row(str(end), name, value, actual.values.get(name), name in wrong, built)

    rows = [row(name, link.get(name)) for name in LINK_SETTINGS]
    rows += [row(name, link[name]) for name in AT_CREATION if name in link]
    if requested.qdisc is None:
        rows.append(row("qdisc", None))
    rows += _tuned(end, requested, actual, wrong)
    addresses = [str(address) for address in requested.addresses] or None
    rows.append(
        Row(
            str(end),
            "addresses",
            addresses,
            [str(address) for address in actual.addresses],
            "addresses" in wrong,
        )
    )
    rows.append(Row(str(end), "up", True, actual.up, not actual.up))
    rows += [
        Row(str(end), name, found[name].requested, found[name].actual, True)
        for name in ("carrier", "master")
        if name in found
    ]
    for name, on in requested.features.items():
        different = offloads.wrong(name, requested.features, actual.features) is not None
        rows.append(Row(str(end), name, on, on != different, different))
    for difference in drifted:
        feature = difference.setting.removeprefix("features ")
        if feature != difference.setting and feature.split()[0] not in requested.features:
            rows.append(Row(str(end), feature, None, difference.actual, True, difference.requested))
    return rows


def node_rows(drift: Drift) -> Iterator[Row]:
    """What drifted in nodes as a whole, what was added to them, and the devices that are gone."""
    for end in drift.gone:
        yield Row(str(end), "device", "there", "gone", True)
    for node, lacking in drift.lacking.items():
        for key, text in lacking.items():
            yield Row(node, " ".join(str(part) for part in key), "as stated", text, True)
    for node, added in drift.extra.items():
        for kind, name in added:
            yield Row(node, kind, None, f"{name} (added)", True)


def _tuned(end: End, requested: Settings, actual: ActualDevice, wrong: Collection[str]) -> Iterator[Row]:
    """Qdisc, steering and threaded NAPI, where they are requested."""
    summary = actual.summary()
    if requested.qdisc is not None:
        wanted = [requested.qdisc.kind, *(f"{k} {v}" for k, v in requested.qdisc.options().items())]
        there = [str(summary["qdisc"]), *(f"{k} {v}" for k, v in summary["qdisc_options"].items())]
        yield Row(str(end), "qdisc", wanted, there, "qdisc" in wrong)
    for name in ("rps_cpus", "xps_cpus"):
        cpus = getattr(requested, name)
        if cpus is not None:
            yield Row(str(end), name, [str(cpu) for cpu in cpus], _queues(summary[name]), name in wrong)
    if requested.threaded is not None:
        yield Row(str(end), "threaded", requested.threaded, summary["threaded"], "threaded" in wrong)


def _queues(cpus: list[list[int]]) -> list[str]:
    """The CPUs of all queues where they are the same, else queue by queue."""
    if all(queue == cpus[0] for queue in cpus):
        return [str(cpu) for cpu in cpus[0]] if cpus else []
    return [f"{number}: {' '.join(map(str, queue)) or 'none'}" for number, queue in enumerate(cpus)]


def as_text(rows: Iterable[Row]) -> str:
    """A table, one line a setting; `drift` marks an actual value that differs."""
    lines = [("device", "setting", "requested", "actual", "")]
    last = ""
    for row in rows:
        device = row.device if row.device != last else ""
        last = row.device
        drift = "drift" if row.drift else ""
        drift += f" (was {_word(row.built)})" if row.built is not None else ""
        lines.append((device, row.setting, _word(row.requested), _word(row.actual), drift))
    return "\n".join(aligned(lines))


def _word(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)
