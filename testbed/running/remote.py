"""Rounds on another kernel: the near end sends requests, the far end measures.

One JSON object a line in each direction. The near end sends {"do": name, ...},
the far end answers {"result": ...} or {"error": class, "text": text}. The far
end is this module run as a program; the channel is whatever joins the two (a
virtio-serial port of a VM), never the network under test.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec

from testbed.capabilities import Capabilities
from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.evidence.collect import CollectSpec
from testbed.experiments.resolve import ResolvedState
from testbed.experiments.schedule import Slot
from testbed.experiments.spec import RoundLimits
from testbed.records.round import Round
from testbed.records.run import Kernel
from testbed.running.measure import Task
from testbed.running.site import LocalSite, SiteLost

_ERRORS: dict[str, type[TestbedError]] = {
    kind.__name__: kind for kind in (TestbedError, InputError, MissingCapability)
}


class Channel(Protocol):
    """Lines to and from the far end."""

    def send(self, line: bytes) -> None: ...

    def receive(self, timeout: float) -> bytes:
        """The next line; SiteLost when there is none within `timeout` seconds or ever."""
        ...


class RemoteSite:
    """The near end: a site whose rounds are measured at the far end of `channel`.

    `slowdown` scales every time limit: software emulation is some 20 times slower.
    """

    def __init__(
        self, name: str, channel: Channel, collect: CollectSpec, limits: RoundLimits, *, slowdown: float = 1.0
    ) -> None:
        self.name = name
        self.raw = Path()
        self._channel, self._slowdown = channel, slowdown
        self._settings = {
            "collect": collect.model_dump(mode="json", exclude_unset=True, by_alias=True),
            "limits": limits.model_dump(mode="json", exclude_unset=True),
        }
        self._ask("open", 30, **self._settings)

    def kernel(self) -> Kernel:
        return Kernel.model_validate(self._ask("kernel", 10))

    def capabilities(self, names: Iterable[str]) -> Capabilities:
        found = self._ask("capabilities", 30, names=sorted(names))
        return Capabilities(found["values"], found["why"])

    def try_state(self, state: ResolvedState) -> None:
        self._ask("try_state", 60, state=[state.name, state.as_record()])

    def measure(self, task: Task) -> Round:
        options = task.state.workload
        answer = self._ask(
            "measure",
            options.omit + options.duration + 30,
            state=[task.state.name, task.state.as_record()],
            number=task.number,
            slot=[task.slot.block, task.slot.position],
            kernel=task.kernel,
            boot=task.boot,
            warmup=task.warmup,
            raw=str(self.raw),
        )
        return msgspec.convert(answer, Round)

    def close(self) -> None:
        """The far end goes when its channel does."""

    def _ask(self, do: str, seconds: float, **arguments: Any) -> Any:
        self._channel.send(json.dumps({"do": do, **arguments}).encode() + b"\n")
        line = self._channel.receive(seconds * self._slowdown)
        try:
            answer = json.loads(line)
        except ValueError:
            raise SiteLost(f"{self.name}: the far end answered {line[:80]!r} to '{do}'") from None
        if "error" in answer:
            raise _ERRORS.get(answer["error"], TestbedError)(answer["text"])
        return answer["result"]


class FarEnd:
    """Answers the near end's requests on this kernel."""

    def __init__(self) -> None:
        self._site: LocalSite | None = None

    @property
    def site(self) -> LocalSite:
        if self._site is None:
            raise TestbedError("the far end got a request before it was opened")
        return self._site

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request; an error is an answer too."""
        steps: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "open": self._open,
            "kernel": lambda _: self.site.kernel().model_dump(mode="json"),
            "capabilities": self._capabilities,
            "try_state": lambda request: self.site.try_state(ResolvedState.from_record(*request["state"])),
            "measure": self._measure,
        }
        try:
            return {"result": steps[request["do"]](request)}
        except TestbedError as error:
            return {"error": type(error).__name__, "text": str(error)}

    def close(self) -> None:
        if self._site is not None:
            self._site.close()

    def _open(self, request: Mapping[str, Any]) -> None:
        self._site = LocalSite(
            CollectSpec.model_validate(request["collect"]), RoundLimits.model_validate(request["limits"])
        )

    def _capabilities(self, request: Mapping[str, Any]) -> dict[str, Any]:
        found = self.site.capabilities(request["names"])
        return {"values": found.values, "why": found.why}

    def _measure(self, request: Mapping[str, Any]) -> Any:
        state = ResolvedState.from_record(*request["state"])
        block, position = request["slot"]
        self.site.raw = Path(request["raw"])
        slot = Slot(block, position, state.name)
        task = Task(request["number"], slot, state, request["kernel"], request["boot"], request["warmup"])
        return msgspec.to_builtins(self.site.measure(task))


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until the near end hangs up."""
    far_end = FarEnd()
    try:
        for line in requests:
            answers.write(json.dumps(far_end.answer(json.loads(line))).encode() + b"\n")
            answers.flush()
    finally:
        far_end.close()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
