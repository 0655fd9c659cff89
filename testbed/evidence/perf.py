"""Running perf(1) beside a flow, and reading what it recorded."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from testbed.available import output_of, scratch
from testbed.errors import MissingCapability, TestbedError
from testbed.lab.lab import Lab
from testbed.nodes.node import Process
from testbed.slowness import scaled

_BEGIN_S = scaled(20.0)
_END_S = scaled(30.0)


@dataclass(frozen=True)
class Sample:
    """A sample of `perf script`: its header line, and the functions of its stack, the innermost first."""

    header: str
    frames: tuple[str, ...]


class Perf:
    """`perf record` with some options, machine-wide, from `start` to `stop`."""

    def __init__(self, options: Sequence[str]) -> None:
        """MissingCapability where perf is not installed or may not do this, with its own message."""
        self._options = ["-a", "-q", *options]
        output_of(["perf", "--version"], "apt-get install linux-perf")
        self._process: Process | None = None
        self._resources = ExitStack()
        folder = self._resources.enter_context(scratch("testbed-perf-"))
        self._file = folder / "perf.data"
        self._pipes = folder / "command", folder / "answer"
        for pipe in self._pipes:
            os.mkfifo(pipe)
        tried = _run(["perf", "record", "-o", str(self._file), *self._options, "--", "true"])
        if tried.returncode:
            self.close()
            raise MissingCapability(f"perf cannot record here: {_last_line(tried.stderr)}")

    def start(self, lab: Lab) -> None:
        """Return when it records, until `stop`. perf ends with this program, however that ends."""
        node = next((node for node in lab.nodes.values() if node.netns is not None), None)
        if node is None:
            raise TestbedError("perf: none of the lab's nodes is on this kernel")
        command, answer = self._pipes
        argv = ["perf", "record", "-o", str(self._file), *self._options]
        argv += ["-D", "-1", f"--control=fifo:{command},{answer}"]
        self._process = node.start(argv, role="perf", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Beside others perf takes up to seconds to set its events up; a short flow would be over.
        if not _acknowledged(command, answer, b"enable\n"):
            self._process.kill()
            self._process = None
            raise TestbedError(f"perf: does not record after {_BEGIN_S:g} s")

    def stop(self, fields: str) -> str:
        """What `perf script -F FIELDS` prints of the recording."""
        process, self._process = self._process, None
        if process is None:
            return ""
        os.kill(process.pid, signal.SIGINT)
        try:
            process.wait(_END_S)
        except TimeoutError:
            process.kill()
            raise TestbedError(f"perf did not end within {_END_S:g} s") from None
        done = _run(["perf", "script", "-i", str(self._file), "-F", fields])
        if done.returncode:
            raise TestbedError(f"perf: cannot read its recording: {_last_line(done.stderr)}")
        return done.stdout

    def close(self) -> None:
        """Stop, and remove what it wrote; idempotent."""
        if self._process:
            self._process.kill()
            self._process = None
        self._resources.close()


@dataclass
class _Block:
    header: str = ""
    frames: list[str] = field(default_factory=list)


def samples(text: str) -> Iterator[Sample]:
    """Samples of `perf script`: a header line, lines of `address function`, an empty line."""
    block = _Block()
    for line in [*text.splitlines(), ""]:
        if not line.strip():
            if block.header:
                yield Sample(block.header, tuple(block.frames))
            block = _Block()
        elif not block.header:
            block.header = line.strip()
        else:
            block.frames.append(_function(line))


def functions(text: str) -> Iterator[str]:
    """The function of each line of `perf script -F ip,sym` of a recording without stacks."""
    return (_function(line) for line in text.splitlines() if line.strip())


def _function(line: str) -> str:
    """Of `address function`, with or without an offset and a module behind."""
    fields = line.split(None, 1)
    return fields[1].split("+0x")[0].strip() if len(fields) > 1 else "[unknown]"


def _acknowledged(command: Path, answer: Path, line: bytes) -> bool:
    """Write `line` to perf's command pipe; whether it answered in time."""
    with open(command, "r+b", buffering=0) as to, open(answer, "r+b", buffering=0) as back:  # noqa: PTH123
        to.write(line)
        return bool(select.select([back], [], [], _BEGIN_S)[0]) and bool(back.read(64))


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
