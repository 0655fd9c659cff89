"""Differences between two topologies: settings that can change live, and the first that needs a rebuild."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.devices.links.kind import End
from testbed.devices.settings import AT_CREATION, Settings
from testbed.topology.spec import Placed, Topology


@dataclass(frozen=True)
class Changes:
    """`settings` and `sysctls` can be applied live; `rebuild` is the first reason why that is not enough."""

    settings: dict[str, Settings] = field(default_factory=dict)
    sysctls: dict[str, dict[str, int | str]] = field(default_factory=dict)
    rebuild: str | None = None

    def __bool__(self) -> bool:
        return bool(self.settings or self.sysctls or self.rebuild)


def changes(old: Topology, new: Topology) -> Changes:
    """What turns a lab of `old` into one of `new`."""
    reason = _structure(old, new)
    if reason:
        return Changes(rebuild=reason)
    before, after = old.placed(), new.placed()
    settings: dict[str, Settings] = {}
    for end, placed in after.items():
        gone = _withdrawn(before[end].config, placed.config)
        if gone:
            return Changes(rebuild=f"{end}: {gone} is not stated any more, and its first value is not known")
        changed = _changed(before[end].config, placed.config)
        if changed.model_fields_set:
            settings[str(end)] = changed
    sysctls = {
        node: changed_here
        for node, spec in new.nodes.items()
        if (changed_here := dict(spec.sysctls.items() - old.nodes[node].sysctls.items()))
    }
    return Changes(settings, sysctls)


def _structure(old: Topology, new: Topology) -> str | None:
    """Nodes, links and routes must be the same."""
    for node in [*old.nodes, *new.nodes]:
        if node not in new.nodes:
            return f"node {node} is gone from the file"
        if node not in old.nodes:
            return f"node {node} is new"
        was, now = old.nodes[node], new.nodes[node]
        for name in ("routes", "neighbours"):
            if getattr(was, name) != getattr(now, name):
                return f"{node}: its {name} changed"
        if was.sysctls.keys() - now.sysctls.keys():
            return f"{node}: a sysctl is not stated any more, and its first value is not known"
        own = set(type(was).model_fields) - {"devices", "routes", "neighbours", "sysctls"}
        if any(getattr(was, name) != getattr(now, name) for name in own):
            return f"{node}: what it is changed"
    before, after = old.placed(), new.placed()
    for end in [*before, *after]:
        if end not in after:
            return f"{end} is gone from the file"
        if end not in before:
            return f"{end} is new"
        if link := _link_change(end, before[end], after[end]):
            return link
    return None


def _link_change(end: End, was: Placed, now: Placed) -> str | None:
    if (was.kind, was.stated_by) != (now.kind, now.stated_by):
        return f"{end}: its link changed"
    own = set(type(now.config).model_fields) - set(Settings.model_fields)
    for name in [*AT_CREATION, *sorted(own)]:
        if getattr(was.config, name) != getattr(now.config, name):
            return f"{end}: {name} changed, which is fixed when the link is made"
    return None


def _withdrawn(was: Settings, now: Settings) -> str | None:
    for name in Settings.model_fields:
        old, new = getattr(was, name), getattr(now, name)
        if old is not None and new is None:
            return name
        if isinstance(old, dict) and old.keys() - new.keys():
            return f"{name} {min(old.keys() - new.keys())}"
    return None


def _changed(was: Settings, now: Settings) -> Settings:
    names = [name for name in Settings.model_fields if getattr(was, name) != getattr(now, name)]
    return now.only(names)
