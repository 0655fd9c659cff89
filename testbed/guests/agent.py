"""The near end of the guest's agent: lines over a virtio-serial port."""

from __future__ import annotations

import select
import socket
import time

from testbed.errors import TestbedError


class GuestLost(TestbedError):
    """The guest is gone, or no longer answers."""


class Lines:
    """Lines in both directions over a socket.

    `receive` raises TimeoutError when none came in time, ConnectionError when
    the other end has gone.
    """

    def __init__(self, port: socket.socket) -> None:
        self.port = port
        self._pending = b""

    def send(self, line: bytes) -> None:
        """Send one line (its newline is added where it is missing)."""
        try:
            self.port.sendall(line.rstrip(b"\n") + b"\n")
        except OSError:
            raise ConnectionError("the guest powered off") from None

    def receive(self, deadline: float) -> bytes:
        """The next line, without its newline; `deadline` as time.monotonic() counts."""
        while b"\n" not in self._pending:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.port], [], [], left)[0]:
                raise TimeoutError("no answer in time")
            try:
                read = self.port.recv(65536)
            except OSError:
                read = b""
            if not read:
                raise ConnectionError("the guest powered off")
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line


class Agent:
    """Requests to the agent in the guest, and its answers."""

    def __init__(self, port: socket.socket) -> None:
        self._lines = Lines(port)
        self._ended: dict[str, tuple[int, int]] = {}

    def ready(self, deadline: float) -> int:
        """Wait until the agent answers. Returns the kernel's taint flags at that time."""
        return int(self._expect("ready", deadline)[1])

    def start(self, verb: str, name: str) -> None:
        """Start the command `name` in the guest; verb: run, channel or shell."""
        self._lines.send(f"{verb} {name}".encode())

    def kill(self, name: str) -> None:
        """SIGKILL for the command's whole session."""
        self._lines.send(f"kill {name}".encode())

    def sysrq(self, key: str) -> None:
        """Have the kernel do what a SysRq key does (`w` prints blocked tasks, `c` crashes it)."""
        self._lines.send(f"sysrq {key}".encode())

    def ended(self, name: str, deadline: float) -> tuple[int, int]:
        """Wait for the end of the command `name`: its exit status and the taint flags."""
        while name not in self._ended:
            fields = self._expect("ended", deadline)
            self._ended[fields[1]] = int(fields[2]), int(fields[3])
        return self._ended[name]

    def _expect(self, verb: str, deadline: float) -> list[str]:
        """The words of the next line that begins with `verb`; others are noise of the port."""
        while True:
            fields = self._lines.receive(deadline).decode(errors="replace").split()
            if fields[:1] == [verb]:
                return fields


class Channel:
    """Lines to and from a program in the guest, over its stdin and stdout."""

    def __init__(self, agent: Agent, port: socket.socket, name: str) -> None:
        self._agent, self._lines, self._name = agent, Lines(port), name

    def send(self, line: bytes) -> None:
        """Send one line. GuestLost when the guest is gone."""
        try:
            self._lines.send(line)
        except ConnectionError as error:
            raise GuestLost(str(error)) from None

    def receive(self, timeout: float) -> bytes:
        """The next line. GuestLost when there is none within `timeout` seconds, or never will be."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self._lines.receive(min(deadline, time.monotonic() + 0.5))
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise GuestLost(f"no answer from the guest in {timeout:g} s") from None
            except ConnectionError as error:
                raise GuestLost(str(error)) from None
            self._check_program()

    def _check_program(self) -> None:
        try:
            status, _ = self._agent.ended(self._name, time.monotonic())
        except TimeoutError:
            return
        except ConnectionError as error:
            raise GuestLost(str(error)) from None
        raise GuestLost(f"the program in the guest ended with exit status {status}")
