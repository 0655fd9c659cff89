"""Make the collectors that an experiment's `collect:` section names."""

from __future__ import annotations

from testbed.errors import MissingCapability
from testbed.evidence.af_packet import PacketSocketSizes
from testbed.evidence.collect import CollectorName, CollectSpec
from testbed.evidence.collector import Collector
from testbed.evidence.cpu import CpuUse
from testbed.evidence.kernel_log import KernelLog
from testbed.evidence.mixed_sizes import MixedSizes
from testbed.evidence.noise import NoiseMeter
from testbed.evidence.packet_sizes import PacketSizes
from testbed.evidence.packet_stacks import PacketStacks
from testbed.evidence.profile import CpuProfile
from testbed.evidence.protocol_counters import StackCounters
from testbed.evidence.queues import Queues
from testbed.evidence.sizes import SizeSource
from testbed.evidence.tcp import TcpState


def collectors_for(collect: CollectSpec) -> list[Collector]:
    """The collectors of `collect`, ready for a run's rounds. MissingCapability when one cannot work here.

    The order is that of `start`: packet sizes come first, so that they see all of the flow.
    """
    source, reason = size_source(collect.collector)
    collectors: list[Collector] = [PacketSizes(source, devices=collect.devices, reason=reason)]
    others: list[tuple[bool, type[Collector]]] = [
        (collect.kernel_log, KernelLog),
        (collect.noise, NoiseMeter),
        (collect.stack, StackCounters),
        (collect.tcp, TcpState),
        (collect.queues, Queues),
        (collect.cpu, CpuUse),
        (collect.profile, CpuProfile),
    ]
    collectors += [make() for wanted, make in others if wanted]
    if collect.stacks:
        collectors.append(PacketStacks(collect.stacks))
    return collectors


def size_source(name: CollectorName = "auto") -> tuple[SizeSource | None, str | None]:
    """The source of packet sizes called `name`, and why it is not the first choice where it is not.

    MissingCapability when that one, or any one at all, cannot work here.
    """
    if name == "none":
        return None, None
    if name == "af_packet":
        return PacketSocketSizes(), "asked for"
    try:
        return MixedSizes(), None
    except MissingCapability as error:
        if name == "bpf":
            raise
        return PacketSocketSizes(), str(error)
