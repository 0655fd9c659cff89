"""Actual values, when a lab was built, of the settings that its topology leaves to the kernel.

Only with it can a change behind the testbed's back be told from the kernel's own choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict

from testbed.devices.features import covers
from testbed.devices.links.kind import End
from testbed.devices.operations import DeleteQdisc, Operation, SetFeatures, SetLink
from testbed.devices.settings import COUPLED, LINK_SETTINGS, Settings
from testbed.lab.read_back import ActualDevice, Difference
from testbed.topology.spec import Topology

NAMES = (*LINK_SETTINGS, "qdisc")


class Baseline(BaseModel):
    """One device: its settings by the kernel's names, and the features that were requested to be on."""

    model_config = ConfigDict(frozen=True)

    values: dict[str, int | str | None]
    features: frozenset[str]


Baselines = Mapping[str, Baseline]  # by `node:device`


def baselines(actual: Mapping[End, ActualDevice]) -> dict[str, Baseline]:
    """The baseline of every device that was read with all of its features."""
    return {str(end): _baseline(state) for end, state in actual.items()}


def renewed(
    old: Baselines, changes: Mapping[End, Settings], topology: Topology, actual: Mapping[End, ActualDevice]
) -> dict[str, Baseline]:
    """`old` after `changes` by the testbed itself, which made the lab that of `topology`."""
    new, placed = dict(old), topology.placed()
    for end, change in changes.items():
        was = old.get(str(end))
        if was is None:
            continue
        now = _baseline(actual[end])
        names = {*placed[end].config.changed_values(change)} | ({"qdisc"} if change.qdisc else set())
        ours = {name for name in now.features ^ was.features if _covered(name, change)}
        new[str(end)] = Baseline(
            values=was.values | {name: now.values[name] for name in names & now.values.keys()},
            features=(was.features - ours) | (now.features & ours),
        )
    return new


def strayed(requested: Settings, baseline: Baseline, actual: ActualDevice) -> Iterator[Difference]:
    """Settings that the topology leaves to the kernel and that differ from when the lab was built."""
    for name, value in baseline.values.items():
        if name in NAMES and getattr(requested, name) is None and actual.values.get(name) != value:
            yield Difference(name, value, actual.values.get(name))
    for name, feature in actual.features.items():
        on = name in baseline.features
        if not feature.fixed and feature.requested != on and not _covered(name, requested):
            yield Difference(f"features {name}", on, feature.requested)


def restored(end: End, requested: Settings, baseline: Baseline, actual: ActualDevice) -> Iterator[Operation]:
    """The operations that restore strayed settings."""
    found = list(strayed(requested, baseline, actual))
    names = {difference.setting for difference in found}
    names |= {ipv4 for general, ipv4 in COUPLED.items() if general in names}
    states = requested.link_values()
    values = {name: states.get(name, baseline.values.get(name)) for name in LINK_SETTINGS if name in names}
    given = {name: value for name, value in values.items() if value is not None}
    if given:
        yield SetLink(*end, given)
    features = {
        d.setting.removeprefix("features "): d.requested for d in found if d.setting.startswith("feat")
    }
    if features:
        yield SetFeatures(*end, features)
    if "qdisc" in names:
        yield DeleteQdisc(*end)


def _baseline(actual: ActualDevice) -> Baseline:
    on = {name for name, feature in actual.features.items() if feature.requested and not feature.fixed}
    return Baseline(values={name: actual.values.get(name) for name in NAMES}, features=frozenset(on))


def _covered(feature: str, settings: Settings) -> bool:
    return any(covers(name, feature) for name in settings.features)
