"""Verify a path prediction: run a short iperf3 test and compare the packet sizes at each hop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.available import scratch
from testbed.errors import TestbedError
from testbed.evidence.collect import CollectSpec
from testbed.evidence.collector import Collector
from testbed.evidence.collectors import collectors_for
from testbed.lab.lab import Lab
from testbed.path.predict import LEGACY_MAX_SIZE, Hop
from testbed.records.round import PacketSize
from testbed.workloads import TOOLS, parse_options
from testbed.workloads.tool import Hooks

SECONDS = 1
WRITE_BYTES = 1 << 20  # more than any packet, so that none is small for want of data


Verdict = Literal["exact", "within", "not seen", "disagrees"]


@dataclass(frozen=True)
class Checked:
    """A hop beside what was seen there. `seen` and `largest_seen` are None where nothing was.

    `within`: not the predicted size, but none above it, and of the class `kind`
    (a segment, GSO, BIG TCP).
    """

    hop: Hop
    seen: int | None  # the size that stands for the hop: see `judge`
    largest_seen: int | None
    verdict: Verdict
    kind: str | None = None

    @property
    def agrees(self) -> bool | None:
        """None where nothing was seen: that is neither agreement nor disagreement."""
        return None if self.verdict == "not seen" else self.verdict != "disagrees"


def all_agree(checked: Iterable[Checked]) -> bool:
    """Whether something was seen, and nothing that disagrees."""
    found = [check.agrees for check in checked if check.agrees is not None]
    return bool(found) and all(found)


def check_path(lab: Lab, hops: Sequence[Hop], source: str, target: str, version: int) -> list[Checked]:
    """Send a flow of IP `version` and judge every hop. TestbedError when the flow does not run."""
    seen = observe(lab, source, target, version, mss=hops[0].mss)
    return [judge(hop, seen.get((hop.reference, hop.direction), {})) for hop in hops]


def judge(hop: Hop, sizes: Mapping[int, int]) -> Checked:
    """Whether `sizes` (bytes -> packets) is what `hop` says.

    Where packets cross whole, the largest size stands for the hop: it must not be
    above the prediction, and of the same class (one segment, GSO, BIG TCP); how
    near it comes depends on the flow's window. Where they are cut, the size that
    carries most of the bytes stands for it, and it must be the predicted one, or
    of the same class where GSO packets are what it is cut into.
    """
    if not sizes:
        return Checked(hop, None, None, "not seen")
    largest = max(sizes)
    allowed = max(hop.largest, hop.passes or 0)
    cut = hop.passes is not None and not hop.merged
    seen = max(sizes, key=lambda size: size * sizes[size]) if cut else largest
    kind = _class(seen, hop)
    verdict: Verdict = "disagrees"
    if largest <= allowed:
        if seen == hop.largest:
            verdict = "exact"
        elif (kind == _class(hop.largest, hop) and (hop.gso or not cut)) or (hop.merged and not cut):
            verdict = "within"
    return Checked(hop, seen, largest, verdict, kind)


def observe(
    lab: Lab, source: str, target: str, version: int, *, mss: int
) -> dict[tuple[str, str], dict[int, int]]:
    """(`node:device`, direction) -> size -> packets, of a short flow from `source` to `target`.

    Its writes are whole numbers of segments of `mss` bytes: a packet with the end
    of any other write in it can be larger than one that is predicted.
    """
    collectors = collectors_for(CollectSpec(cpu=False))
    try:
        for collector in collectors:
            collector.start(lab)
        _send(lab, source, target, version, WRITE_BYTES // mss * mss)
        return _by_device(collectors)
    finally:
        for collector in collectors:
            collector.close()


def _send(lab: Lab, source: str, target: str, version: int, write: int) -> None:
    options = {"tool": "iperf3", "from": source, "to": target, "family": version}
    flow = parse_options({**options, "duration": SECONDS, "length": write, "congestion": "cubic"})
    TOOLS[flow.tool].require(flow)
    with scratch("testbed-path-") as folder:
        outcome = TOOLS[flow.tool].run(
            lab, flow, cpus={}, hooks=Hooks(measuring=lambda: None), raw=folder, raw_name="path"
        )
    if outcome.reason is not None:
        raise TestbedError(f"the flow from {source} to {target} failed: {outcome.reason}")


def _by_device(collectors: Iterable[Collector]) -> dict[tuple[str, str], dict[int, int]]:
    seen: dict[tuple[str, str], dict[int, int]] = {}
    for collector in collectors:
        sizes: list[PacketSize] = collector.stop().get("packet_sizes", [])
        for size in sizes:
            here = seen.setdefault((f"{size.node}:{size.device}", size.direction), {})
            here[size.size] = here.get(size.size, 0) + size.packets
    return seen


def _class(size: int, hop: Hop) -> str:
    if size > LEGACY_MAX_SIZE:
        return "BIG TCP"
    return "GSO" if size > hop.segment else "segment"
