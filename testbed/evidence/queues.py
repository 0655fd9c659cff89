"""How full the root qdiscs of a lab were, sampled in the measured seconds, and what they dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from testbed.evidence.sampling import Sampler
from testbed.lab.lab import Lab
from testbed.netlink.channel import Channel
from testbed.netlink.message import Link, list_links
from testbed.netlink.qdisc_messages import QdiscStats, decode_stats, list_qdiscs
from testbed.records.round import Queue

_Look = dict[str, QdiscStats]  # by `node:device`


class Queues:
    """Collector: `queues`, of each device that has a queue. Where all have noqueue it looks at nothing."""

    name = "queues"

    def __init__(self) -> None:
        self._channels: dict[str, Channel] = {}
        self._devices: dict[str, dict[int, str]] = {}  # node -> ifindex -> `node:device`
        self._looks: list[_Look] = []
        self._counted = 0  # looks until the test was over
        self._sampler = Sampler(self._look)

    def start(self, lab: Lab) -> None:
        self.close()
        self._looks, self._counted = [], 0
        for name, node in lab.nodes.items():
            if (namespace := getattr(node, "namespace", None)) is None:
                continue
            channel = Channel(namespace)
            stats = [one for one in map(decode_stats, channel.dump(list_qdiscs())) if one]
            if any(one.kind != "noqueue" for one in stats):
                links = map(Link, channel.dump(list_links()))
                self._devices[name] = {link.ifindex: f"{name}:{link.name}" for link in links}
                self._channels[name] = channel
            else:
                channel.close()

    def measuring(self) -> None:
        if self._channels:
            self._sampler.start()

    def over(self) -> None:
        if self._channels:
            self._look(False)
            self._counted = len(self._looks)

    def stop(self) -> Mapping[str, Any]:
        self._sampler.stop()
        if self._looks and not self._counted:
            self._look(False)
        looks = self._looks[: self._counted or None]
        self.close()
        return {"queues": summed(looks)} if looks else {}

    def close(self) -> None:
        self._sampler.stop()
        while self._channels:
            self._channels.popitem()[1].close()
        self._devices = {}

    def _look(self, search: bool) -> None:
        """Read every queue once; new devices are not looked for."""
        found: _Look = {}
        for node, channel in self._channels.items():
            for one in map(decode_stats, channel.dump(list_qdiscs())):
                if one and one.kind != "noqueue" and (place := self._devices[node].get(one.ifindex)):
                    found[place] = one
        self._looks.append(found)


def summed(looks: Sequence[Mapping[str, QdiscStats]]) -> dict[str, Queue]:
    """`node:device` -> its queue over all looks; counts are from the first to the last."""
    queues = {}
    for place in dict.fromkeys(place for look in looks for place in look):
        seen = [look[place] for look in looks if place in look]
        first, last = seen[0], seen[-1]
        queues[place] = Queue(
            kind=last.kind,
            samples=len(seen),
            backlog_bytes_max=max(one.backlog_bytes for one in seen),
            backlog_bytes_mean=fmean(one.backlog_bytes for one in seen),
            backlog_packets_max=max(one.backlog_packets for one in seen),
            backlog_packets_mean=fmean(one.backlog_packets for one in seen),
            drops=last.drops - first.drops,
            overlimits=last.overlimits - first.overlimits,
            requeues=last.requeues - first.requeues,
        )
    return queues
