"""How `testbed kernel boot` shows a guest: output as it comes, a shell, or a process of its own."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.guests import vng, ways
from testbed.guests.launch import Size
from testbed.guests.result import BootFailed, Result
from testbed.guests.vm import Vm
from testbed.guests.ways import Way
from testbed.kernels.cache import BuiltKernel
from testbed.outcome import Outcome

OUTCOME = "outcome.json"
# As timeout(1) has them: the command's time was over, and the tool itself failed.
TIMEOUT_STATUS = 124
NO_STATUS = 125


def results_folder(kernel: BuiltKernel, folder: Path | None) -> Path:
    """A new folder: the requested one, or one of results/ named by time and kernel."""
    if folder is not None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(
                f"{folder}: holds an earlier result, which is never overwritten; name a new folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        return folder.absolute()
    base = Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-boot-{kernel.name}"
    folder, number = base, 1
    while True:
        try:
            folder.mkdir(parents=True)
            return folder.absolute()
        except FileExistsError:
            number += 1
            folder = base.with_name(f"{base.name}-{number}")
        except OSError as error:
            raise TestbedError(
                f"{folder}: cannot make it: {error.strerror}; name one with --results"
            ) from None


def boot(
    kernel: BuiltKernel,
    folder: Path,
    size: Size,
    argv: Sequence[str],
    timeout: float,
    *,
    shell: bool,
    accelerator: str | None,
    backend: str,
) -> int:
    """Boot, run, print; the exit status for the caller. outcome.json in `folder` tells the same."""
    try:
        try_ways = _ways(kernel, accelerator)
        if backend == "vng":
            finished = vng.run(
                kernel, folder, size, argv, timeout=timeout, watch=_copier(), try_ways=try_ways
            )
            result, boot_s = finished.result, finished.boot_s
        else:
            with Vm(kernel, folder, size=size, try_ways=try_ways) as vm:
                result = _shell(vm, argv) if shell else vm.run(argv, timeout=timeout, watch=_copier())
                boot_s = vm.boot_s
    except BootFailed as error:
        _write(folder, {"outcome": Outcome.BOOT_FAILED, "reason": str(error)})
        print(f"testbed: {error}", file=sys.stderr)
        return NO_STATUS
    except (MissingCapability, InputError):
        # Refused before anything was started: no result to keep.
        with suppress(OSError):
            folder.rmdir()
        raise
    _write(folder, {"outcome": result.outcome, "boot_s": round(boot_s, 2), **result.record()})
    return _tell(kernel, folder, result)


def in_background(folder: Path) -> None:
    """Run this very command again without --background, in a session of its own."""
    arguments = [word for word in sys.argv[1:] if word != "--background"]
    at = arguments.index("boot") + 1
    argv = [
        sys.executable,
        "-m",
        "testbed",
        *arguments[:at],
        "--results",
        str(folder),
        *_without_results(arguments[at:]),
    ]
    with (folder.with_name(folder.name + ".log")).open("ab") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    print(f"pid {process.pid}, results in {folder}, output in {folder}.log")


def _without_results(arguments: list[str]) -> list[str]:
    """The arguments without --results FOLDER, up to the command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept: list[str] = []
    options = iter(arguments[:end])
    for word in options:
        if word == "--results":
            next(options, None)
        elif not word.startswith("--results="):
            kept.append(word)
    return kept + arguments[end:]


def _ways(kernel: BuiltKernel, accelerator: str | None) -> list[Way]:
    if accelerator is None:
        return []
    if accelerator not in ("kvm", "tcg"):
        raise InputError(f"--accelerator {accelerator}: kvm or tcg")
    transports = dict.fromkeys(way.transport for way in ways.candidates(kernel))
    return [Way(accelerator, transport) for transport in transports]


def _tell(kernel: BuiltKernel, folder: Path, result: Result) -> int:
    """Print the outcome of the command; returns the exit status."""
    for line in result.kernel_log:
        print(f"testbed: {kernel.name} logged: {line}", file=sys.stderr)
    if result.taint_after not in (None, result.taint_before):
        print(f"testbed: taint was {result.taint_before}, is {result.taint_after}", file=sys.stderr)
    if result.reason is None:
        return result.status or 0
    print(f"testbed: {kernel.name}: {result.outcome}: {result.reason} (see {folder})", file=sys.stderr)
    if result.outcome is Outcome.FAIL:
        return 1
    return TIMEOUT_STATUS if result.outcome is Outcome.TIMEOUT else NO_STATUS


def _write(folder: Path, record: dict[str, object]) -> None:
    (folder / OUTCOME).write_text(json.dumps(record, indent=1) + "\n")


def _copier() -> Callable[[Path], None]:
    """A function that copies to stdout and stderr what the command has written since the last call."""
    copied = {"stdout": 0, "stderr": 0}

    def copy(folder: Path) -> None:
        for name, stream in (("stdout", sys.stdout.buffer), ("stderr", sys.stderr.buffer)):
            if (folder / name).exists():
                with (folder / name).open("rb") as file:
                    file.seek(copied[name])
                    new = file.read()
                stream.write(new)
                stream.flush()
                copied[name] += len(new)

    return copy


def _shell(vm: Vm, argv: Sequence[str]) -> Result:
    """Join this terminal and the guest's until the shell ends."""
    ended = threading.Event()
    joined = threading.Thread(target=_join, args=(vm.terminal.dup(), ended), daemon=True)
    lines, columns = os.get_terminal_size() if sys.stdin.isatty() else (80, 24)
    sized = f'stty cols {lines} rows {columns} 2>/dev/null; exec "$@"'
    with _raw_terminal():
        joined.start()
        try:
            return vm.shell(["sh", "-c", sized, "sh", *argv], lambda folder: None)
        finally:
            ended.set()
            joined.join(1)


def _join(port: socket.socket, ended: threading.Event) -> None:
    """Copy both ways until `ended`."""
    keys, guest = sys.stdin.fileno(), port.fileno()
    inputs = [keys, guest]
    while not ended.is_set():
        for ready in select.select(inputs, [], [], 0.1)[0]:
            data = os.read(ready, 4096)
            if not data:
                inputs.remove(ready)
            else:
                os.write(guest if ready == keys else sys.stdout.fileno(), data)


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Keys go to the guest as they are pressed, Ctrl-C too."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
