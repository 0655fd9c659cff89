"""Flows: a client and a server, started together, timed and ended by the same rules for every tool."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from testbed.errors import InputError
from testbed.records import Workload
from testbed.slowness import scaled
from testbed.topology.lab import Lab
from testbed.workloads.crew import Crew, Member
from testbed.workloads.listening import listens
from testbed.workloads.tool import Hooks, Options, Outcome

STARTED = b"started\n"
_READY_S = scaled(10.0)  # for both ends to load and the server to listen
_SETTLE_S = scaled(3.0)  # between the first end of a process and the last
_FAILED_S = 0.3  # the same where the test has not begun: the other end may have a word to say


@dataclass(frozen=True)
class Reading:
    """What a tool makes of the two outputs of its flow. `errors`: role -> the tool's own words."""

    workload: Workload
    measured_s: float = 0.0
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Flow:
    """What a tool wants run.

    The client waits for a line on stdin. One that omits the first seconds by
    itself is told at once, and writes `started` when its test starts; another
    is told when the omitted seconds are over. `serves_on` says that the server
    does not end by itself. `around` is entered before the processes start. `beside`
    is a second such server, in the client's node.
    """

    options: Options
    client: Sequence[str]
    server: Sequence[str]
    port: int
    read: Callable[[bytes, bytes], Reading]
    suffix: str = "txt"
    omits: bool = True
    serves_on: bool = False
    beside: Sequence[str] = ()
    around: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True)
class _Running:
    flow: Flow
    client: Member
    server: Member
    beside: Member | None = None

    def endless(self) -> list[Member]:
        """Its processes that do not end by themselves."""
        servers = [self.server] if self.flow.serves_on else []
        return servers + ([self.beside] if self.beside else [])

    def listeners(self) -> list[tuple[str, Member]]:
        """Node and process of its servers."""
        options = self.flow.options
        beside = [(options.from_, self.beside)] if self.beside else []
        return [(options.to, self.server), *beside]

    def begun(self) -> bool:
        return self.client.ended is not None or self.client.output.startswith(STARTED)


def run_flows(
    lab: Lab,
    flows: Sequence[Flow],
    *,
    cpus: Mapping[str, Collection[int]],
    hooks: Hooks,
    raw: Path,
    raw_name: str,
) -> list[Outcome]:
    """Run `flows` beside each other: all start together, and each gives an outcome."""
    with ExitStack() as stack:
        for flow in flows:
            stack.enter_context(flow.around())
        crew = stack.enter_context(Crew())
        running = [_start(crew, lab, flow, cpus) for flow in flows]
        trouble = _drive(crew, running, lab, hooks)
        several = len(running) > 1
        return [
            _finish(one, trouble, raw, f"{raw_name}-{number}" if several else raw_name)
            for number, one in enumerate(running)
        ]


def destination(lab: Lab, options: Options) -> str:
    """The address that the client of `options` connects to. InputError for a name that cannot be resolved."""
    if options.address is None:
        return lab.address(options.to, options.family)
    try:
        return lab.nodes[options.from_].call(_resolve, options.address, options.family)
    except OSError as error:
        raise InputError(
            f"workload.address: {options.from_} cannot resolve '{options.address}': {error.strerror}"
        ) from None


def _resolve(name: str, family: int) -> str:
    found = socket.getaddrinfo(name, None, socket.AF_INET6 if family == 6 else socket.AF_INET)
    return str(found[0][4][0])


def source_address(lab: Lab, options: Options, address: str) -> str:
    """The address from which the client's node sends to `address`."""
    return lab.nodes[options.from_].call(_source, address, options.family)


def _source(address: str, family: int) -> str:
    # Connecting a datagram socket asks the routing table, and sends nothing.
    with socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return "::" if family == 6 else "0.0.0.0"
        return str(probe.getsockname()[0])


def _start(crew: Crew, lab: Lab, flow: Flow, cpus: Mapping[str, Collection[int]]) -> _Running:
    options = flow.options
    server = crew.start(lab.nodes[options.to], flow.server, role="server", cpus=cpus.get(options.to))
    client = crew.start(
        lab.nodes[options.from_], flow.client, role="client", cpus=cpus.get(options.from_), talk=True
    )
    beside = None
    if flow.beside:
        beside = crew.start(
            lab.nodes[options.from_], flow.beside, role="beside", cpus=cpus.get(options.from_)
        )
    return _Running(flow, client, server, beside)


def _drive(crew: Crew, running: Sequence[_Running], lab: Lab, hooks: Hooks) -> str | None:
    """Take the flows from their start to their end; a reason that none of their processes would give."""
    clients = [one.client for one in running]
    omitting = [one for one in running if one.flow.omits]
    patience = scaled(max(one.flow.options.timeout for one in running))
    omit = max((one.flow.options.omit for one in omitting), default=0.0)

    trouble = _wait_until_ready(crew, running, lab)
    if trouble or _fallen(crew.members):
        return trouble
    for one in omitting:
        one.client.tell(b"go\n")
    if not crew.wait_until(lambda: all(one.begun() for one in omitting), time.monotonic() + patience):
        return f"client: the test did not start within {patience:g} s"
    start = time.monotonic()
    if _fallen(clients):
        crew.wait_for_end([], start + _FAILED_S, _FAILED_S)
        return None
    if not crew.wait_until(lambda: _fallen(clients), start + omit):
        hooks.measuring()
        crew.mark()
        for one in running:
            if not one.flow.omits:
                one.client.tell(b"go\n")
    duration = max(one.flow.options.duration for one in running)
    crew.wait_for_end(
        [member for one in running for member in one.endless()], start + omit + duration + patience, _SETTLE_S
    )
    if any(client.killed for client in clients) and not any(_failed(client) for client in clients):
        return f"client: no result {patience:g} s after the end of the test, killed"
    return None


def _wait_until_ready(crew: Crew, running: Sequence[_Running], lab: Lab) -> str | None:
    """Wait for every server to listen, or for a process to end; what is missing after the time for it."""
    waiting = [(node, member, one.flow.port) for one in running for node, member in one.listeners()]

    def ready() -> bool:
        while waiting:
            node, member, port = waiting[-1]
            if not lab.nodes[node].call(listens, member.process.pid, port):
                return _fallen(crew.members)
            waiting.pop()
        return True

    if crew.wait_until(ready, time.monotonic() + _READY_S, silent=True):
        return None
    return f"server: port {waiting[-1][2]} does not listen after {_READY_S:g} s"


def _fallen(members: Sequence[Member]) -> bool:
    return any(member.ended for member in members)


def _failed(member: Member) -> bool:
    return member.ended is not None and not member.killed and member.ended.status != 0


def _finish(one: _Running, trouble: str | None, raw: Path, raw_name: str) -> Outcome:
    members = {"client": one.client, "server": one.server}
    outputs = {role: bytes(member.output).removeprefix(STARTED) for role, member in members.items()}
    reading = one.flow.read(outputs["client"], outputs["server"])
    words = [_words(member, reading.errors.get(role)) for role, member in members.items()]
    reason = "; ".join(filter(None, [*words, trouble])) or None
    if reason is None and reading.workload.bits_per_second is None:
        reason = f"client: {reading.workload.tool} ended without a result"
    kept = _keep(outputs, one.flow, raw, f"{raw_name}-{reading.workload.tool}")
    return Outcome(
        workload=reading.workload.model_copy(update={"raw": kept}),
        reason=reason,
        measured_s=reading.measured_s,
        processes={role: member.use() for role, member in members.items()},
        pids={role: member.process.pid for role, member in members.items()},
    )


def _words(member: Member, error: str | None) -> str | None:
    """What went wrong with this end: in the tool's words first, else how its process ended."""
    how = member.how_it_ended()
    lines = member.errors() if how else []
    words = error or (lines[0] if lines else how)
    return f"{member.role}: {words}" if words else None


def _keep(outputs: Mapping[str, bytes], flow: Flow, raw: Path, stem: str) -> list[str]:
    """Write each end's output as the tool gave it; the files' names below the run's folder."""
    kept = []
    for role, output in outputs.items():
        if output and not (role == "server" and flow.serves_on):  # such a server only greets
            path = raw / f"{stem}-{role}.{flow.suffix}"
            path.write_bytes(output)
            kept.append(f"{raw.name}/{path.name}")
    return kept
