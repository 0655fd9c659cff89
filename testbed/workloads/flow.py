"""Flows: a client and a server, started together, timed and ended by the same rules for every tool."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import psutil
from msgspec import structs

from testbed.available import congestion_control
from testbed.errors import InputError, TestbedError
from testbed.lab.lab import Lab
from testbed.records.round import ProcessUse, Workload
from testbed.slowness import scaled
from testbed.unfinished import write_whole
from testbed.workloads import start_gate
from testbed.workloads.contradictions import Claim, Span, contradictions
from testbed.workloads.listening import listens
from testbed.workloads.ports import reserved
from testbed.workloads.process_group import GroupProcess, ProcessGroup
from testbed.workloads.tool import Hooks, Options, Outcome

STARTED = b"started\n"
_READY_S = scaled(10.0)  # for both ends to load and the server to listen
_SETTLE_S = scaled(3.0)  # between the first end of a process and the last
_FAILED_S = 0.3  # the same where the test has not begun: the other end may report the reason
_ASLEEP_S = scaled(0.1)  # how long the two ends of a running test are never both asleep


@dataclass(frozen=True)
class Reading:
    """The figures that a tool reads from the two outputs of its flow.

    `resolution_s`: by how much `measured_s` may be off as the tool prints it.
    `arrived`: role -> payload bytes that this end received in the seconds that count.
    `least_packets`: role -> packets that this end must have received for the figures to be true.
    `errors`: role -> the tool's own message.
    """

    workload: Workload
    measured_s: float = 0.0
    resolution_s: float = 0.0
    arrived: Mapping[str, int] = field(default_factory=dict)
    least_packets: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Flow:
    """The processes of one flow, and how their outputs are read.

    The client starts its test when it gets a line on stdin. With `own_warmup` it
    excludes the warm-up seconds itself: it gets the line at once, and writes
    `started` when its test starts. Any other client gets the line when the warm-up
    seconds are over. `serves_on`: the server does not end by itself. `extra`: a
    second such server, in the client's node.
    `workload` is what is known before it runs; `read` adds what the outputs of
    client and server say. `alarm_at_end`: the server ends by a timer of its own
    (SIGALRM) long after the end of the test. `wall_clock` says that
    the tool measures by the clock that can be set, `outstanding` how many requests
    of a test of requests wait at the same time.
    """

    options: Options
    workload: Workload
    client: Sequence[str]
    server: Sequence[str]
    port: int
    read: Callable[[Workload, bytes, bytes], Reading]
    suffix: str = "txt"
    own_warmup: bool = True
    serves_on: bool = False
    extra: Sequence[str] = ()
    alarm_at_end: bool = False
    wall_clock: bool = False
    outstanding: int = 1


OptionsT = TypeVar("OptionsT", bound=Options)


@dataclass(frozen=True)
class FlowTool(Generic[OptionsT]):
    """A tool that measures one flow. See workloads/tool.py: Tool.

    `flow` says what to run towards an address. `needs` is entered before that, and
    holds what the options need of the machine; MissingCapability where it cannot.
    """

    name: str
    options: type[OptionsT]
    version: Callable[[], str]
    flow: Callable[[Lab, OptionsT, str], Flow]
    needs: Callable[[OptionsT], AbstractContextManager[object]] = lambda _: nullcontext()

    def require(self, options: OptionsT) -> None:
        """MissingCapability where this machine lacks something that `options` need."""
        require([(self, options)])

    def run(
        self,
        lab: Lab,
        options: OptionsT,
        *,
        cpus: Mapping[str, Collection[int]],
        hooks: Hooks,
        raw: Path,
        raw_name: str,
    ) -> Outcome:
        """One test, between fresh processes at both ends."""
        (outcome,) = run_flows(lab, [(self, options)], cpus=cpus, hooks=hooks, raw=raw, raw_name=raw_name)
        return outcome


Wanted = Sequence[tuple[FlowTool[Any], Options]]


def require(wanted: Wanted) -> None:
    """MissingCapability where this machine lacks something that these flows together need."""
    with ExitStack() as stack:
        for tool, options in wanted:
            tool.version()
            if options.tcp_congestion:
                congestion_control(options.tcp_congestion)
            stack.enter_context(tool.needs(options))


@dataclass(frozen=True)
class _FlowRun:
    flow: Flow
    client: GroupProcess
    server: GroupProcess
    extra: GroupProcess | None = None

    def endless(self) -> list[GroupProcess]:
        """Its processes that do not end by themselves."""
        servers = [self.server] if self.flow.serves_on else []
        return servers + ([self.extra] if self.extra else [])

    def listeners(self) -> list[tuple[str, GroupProcess]]:
        """Node and process of its servers."""
        options = self.flow.options
        extra = [(options.from_, self.extra)] if self.extra else []
        return [(options.to, self.server), *extra]

    def begun(self) -> bool:
        return self.client.ended is not None or self.client.output.startswith(STARTED)


def run_flows(
    lab: Lab,
    wanted: Wanted,
    *,
    cpus: Mapping[str, Collection[int]],
    hooks: Hooks,
    raw: Path,
    raw_name: str,
) -> list[Outcome]:
    """Run flows beside each other: all start together, and each gives an outcome.

    Where something keeps one of them from being run, none is.
    """
    with ExitStack() as stack:
        prepared = [_prepare(stack, lab, tool, options) for tool, options in wanted]
        if any(trouble for _, trouble in prepared):
            return [Outcome(flow.workload, trouble) for flow, trouble in prepared]
        nodes = {name: lab.nodes[name] for _, options in wanted for name in options.nodes}
        stack.enter_context(reserved(nodes, {port for _, options in wanted for port in options.ports}))
        group = stack.enter_context(ProcessGroup())
        runs = [_start(group, lab, flow, cpus) for flow, _ in prepared]
        trouble = _drive(group, runs, lab, hooks)
        several = len(runs) > 1
        return [
            _finish(run, trouble, raw, f"{raw_name}-{number}" if several else raw_name)
            for number, run in enumerate(runs)
        ]


def _prepare(stack: ExitStack, lab: Lab, tool: FlowTool[Any], options: Options) -> tuple[Flow, str | None]:
    """The flow, and why it cannot be run; what it needs of the machine is held by `stack`."""
    try:
        version = tool.version()
        address = _destination(lab, options)
        stack.enter_context(tool.needs(options))
    except TestbedError as error:
        return tool.flow(lab, options, options.address or options.to), str(error)
    flow = tool.flow(lab, options, address)
    return replace(flow, workload=structs.replace(flow.workload, version=version)), None


def _destination(lab: Lab, options: Options) -> str:
    """The address that the client of `options` connects to. InputError for a name that cannot be resolved."""
    if options.address is None:
        return lab.address(options.to, options.family)
    try:
        return lab.nodes[options.from_].call(_resolve, options.address, options.family)
    except (OSError, UnicodeError) as error:  # the latter for what cannot be a name at all
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"workload.address: {options.from_} cannot resolve '{options.address}': {why}"
        ) from None


def _resolve(name: str, family: int) -> str:
    found = socket.getaddrinfo(name, None, socket.AF_INET6 if family == 6 else socket.AF_INET)
    return str(found[0][4][0])


def wait_for_start(command: Sequence[str], *, join_stderr: bool = False) -> list[str]:
    """A command line that waits for a line on stdin and then becomes `command`."""
    program = [sys.executable, "-I", "-S", str(Path(start_gate.__file__))]
    return [*program, *(["--join-stderr"] if join_stderr else []), *command]


def json_object(text: bytes) -> dict[str, Any]:
    """The JSON object that one end printed; empty when it printed none, or not all of it."""
    try:
        result = json.loads(text)
    except ValueError:
        return {}
    return result if isinstance(result, dict) else {}


def source_address(lab: Lab, options: Options, address: str) -> str:
    """The address from which the client's node sends to `address`."""
    return lab.nodes[options.from_].call(_source, address, options.family)


def _source(address: str, family: int) -> str:
    # Connecting a datagram socket asks the routing table, and sends nothing.
    with socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except (OSError, UnicodeError):
            return "::" if family == 6 else "0.0.0.0"
        return str(probe.getsockname()[0])


def _start(group: ProcessGroup, lab: Lab, flow: Flow, cpus: Mapping[str, Collection[int]]) -> _FlowRun:
    options = flow.options
    server = group.start(lab.nodes[options.to], flow.server, role="server", cpus=cpus.get(options.to))
    client = group.start(
        lab.nodes[options.from_], flow.client, role="client", cpus=cpus.get(options.from_), talk=True
    )
    extra = None
    if flow.extra:
        extra = group.start(lab.nodes[options.from_], flow.extra, role="beside", cpus=cpus.get(options.from_))
    return _FlowRun(flow, client, server, extra)


def _drive(group: ProcessGroup, runs: Sequence[_FlowRun], lab: Lab, hooks: Hooks) -> str | None:
    """Run the started flows to their end. Returns a failure that no process reports itself, or None."""
    clients = [run.client for run in runs]
    with_warmup = [run for run in runs if run.flow.own_warmup]
    patience = scaled(max(run.flow.options.timeout for run in runs))
    omit = max((run.flow.options.omit for run in with_warmup), default=0.0)

    trouble = _wait_until_ready(group, runs, lab)
    if trouble or _any_ended(group.members):
        return trouble
    for run in with_warmup:
        run.client.send_line(b"go\n")
    if not group.wait_until(lambda: all(run.begun() for run in with_warmup), time.monotonic() + patience):
        return f"client: the test did not start within {patience:g} s"
    start = time.monotonic()
    if _any_ended(clients):
        group.wait_for_end([], start + _FAILED_S, _FAILED_S)
        return None
    if not group.wait_until(lambda: _any_ended(clients), start + omit):
        hooks.measuring()
        group.start_counting()
        for run in runs:
            if not run.flow.own_warmup:
                run.client.send_line(b"go\n")
    end = start + omit + max(run.flow.options.duration for run in runs)
    for run in runs:
        if run.flow.alarm_at_end:
            _end_by_alarm(group, run, hooks, end, end + patience)
    group.wait_for_end([member for run in runs for member in run.endless()], end + patience, _SETTLE_S)
    if any(client.killed for client in clients) and not any(_failed(client) for client in clients):
        return f"client: no result {patience:g} s after the end of the test, killed"
    return None


def _wait_until_ready(group: ProcessGroup, runs: Sequence[_FlowRun], lab: Lab) -> str | None:
    """Wait for every server to listen, or for a process to end. Returns the port that does not listen."""
    waiting = [(node, member, run.flow.port) for run in runs for node, member in run.listeners()]

    def ready() -> bool:
        while waiting:
            node, member, port = waiting[-1]
            if not lab.nodes[node].call(listens, member.process.pid, port):
                return _any_ended(group.members)
            waiting.pop()
        return True

    if group.wait_until(ready, time.monotonic() + _READY_S, silent=True):
        return None
    return f"server: port {waiting[-1][2]} does not listen after {_READY_S:g} s"


def _end_by_alarm(group: ProcessGroup, run: _FlowRun, hooks: Hooks, end: float, deadline: float) -> None:
    """Send the server SIGALRM when the test is over: its time has passed, and both ends sleep.

    It was over when they were first seen to sleep; nothing later counts.
    """
    ends = (run.client, run.server)
    before: list[tuple[str, int] | None] = []

    def over() -> bool:
        return _any_ended(ends) or any(map(_failed, group.members))

    while not group.wait_until(over, max(end, time.monotonic() + _ASLEEP_S)) and time.monotonic() < deadline:
        now = [member.activity() for member in ends]
        if now == before and all(found and found[0] == psutil.STATUS_SLEEPING for found in now):
            return run.server.alarm()
        if now != before:
            hooks.over()
            group.stop_counting()
        before = now


def _any_ended(members: Sequence[GroupProcess]) -> bool:
    return any(member.ended for member in members)


def _failed(member: GroupProcess) -> bool:
    return member.ended is not None and not member.killed and member.ended.status != 0


def _finish(run: _FlowRun, trouble: str | None, raw: Path, raw_name: str) -> Outcome:
    members = {"client": run.client, "server": run.server}
    outputs = {role: bytes(member.output).removeprefix(STARTED) for role, member in members.items()}
    reading = _read(run.flow, outputs)
    messages = [_message(member, reading.errors.get(role)) for role, member in members.items()]
    reason = "; ".join(filter(None, [*messages, trouble])) or None
    if reason is None and reading.workload.bits_per_second is None:
        reason = f"client: {reading.workload.tool} ended without a result"
    if reason is None:
        reason = "; ".join(_contradictions_of(run, reading)) or None
    kept = _keep(outputs, run.flow, raw, f"{raw_name}-{reading.workload.tool}")
    return Outcome(
        workload=structs.replace(reading.workload, raw=kept),
        reason=reason,
        measured_s=reading.measured_s,
        resolution_s=reading.resolution_s,
        arrived=_at_nodes(run.flow.options, reading.arrived),
        least_packets=_at_nodes(run.flow.options, reading.least_packets),
        counts_from=run.client.line_sent_at.monotonic
        + (run.flow.options.omit if run.flow.own_warmup else 0.0)
        if run.client.line_sent_at
        else None,
        processes=_uses(run),
        pids={role: member.process.pid for role, member in members.items()},
    )


def _uses(run: _FlowRun) -> dict[str, ProcessUse]:
    """CPU seconds by role. A server in the client's node is the client's: it is what sends."""
    client, server = run.client.use(), run.server.use()
    if run.extra is not None:
        extra = run.extra.use()
        client = ProcessUse(user_s=client.user_s + extra.user_s, system_s=client.system_s + extra.system_s)
    return {"client": client, "server": server}


def _read(flow: Flow, outputs: Mapping[str, bytes]) -> Reading:
    try:
        return flow.read(flow.workload, outputs["client"], outputs["server"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        # Another version of the tool than those we know, or something else of its name.
        text = f"its result cannot be read: {type(error).__name__}: {error}".splitlines()[0]
        return Reading(flow.workload, errors={"client": text})


def _contradictions_of(run: _FlowRun, reading: Reading) -> list[str]:
    """Why the figures of a flow that gave some cannot be true."""
    workload = reading.workload
    begun = run.client.line_sent_at
    ends = [run.client] if run.flow.serves_on else [run.client, run.server]  # the later one has the figures
    ended = max((end.ended_at for end in ends if end.ended_at), key=lambda at: at.monotonic, default=None)
    if begun is None or ended is None:
        return ["client: gave figures before it was started"]
    claim = Claim(
        tool=workload.tool,
        requested_s=run.flow.options.duration,
        seconds=reading.measured_s,
        bits_per_second=workload.bits_per_second or 0.0,
        octets=workload.bytes,
        transactions_per_second=workload.transactions_per_second,
        latency_us=workload.latency_us,
        resolution_s=reading.resolution_s,
        wall_clock=run.flow.wall_clock,
        outstanding=run.flow.outstanding,
    )
    return contradictions(claim, Span(begun, ended))


def _at_nodes(options: Options, roles: Mapping[str, int]) -> dict[str, int]:
    """The same by node. What stays in one node crosses no device."""
    if options.from_ == options.to:
        return {}
    nodes = {"client": options.from_, "server": options.to}
    return {nodes[role]: count for role, count in roles.items()}


def _message(member: GroupProcess, error: str | None) -> str | None:
    """What went wrong at this end: the tool's own message, else how its process ended."""
    how = member.how_it_ended()
    lines = member.errors() if how else []
    text = error or (lines[0] if lines else how)
    return f"{member.role}: {text}" if text else None


def _keep(outputs: Mapping[str, bytes], flow: Flow, raw: Path, stem: str) -> list[str]:
    """Write each end's output as the tool gave it; the files' names below the run's folder."""
    kept = []
    for role, output in outputs.items():
        if output and not (role == "server" and flow.serves_on):  # such a server only greets
            path = raw / f"{stem}-{role}.{flow.suffix}"
            write_whole(path, output)
            kept.append(f"{raw.name}/{path.name}")
    return kept
