"""A pump: copies frames between the two TAPs that are its stdin and stdout, until one of them is gone.

It stands where QEMU or vhost stands when a guest's network device is a TAP. Run
as a program of its own (`command`), without this package: it starts in some 15
ms and its CPU time is nobody else's.

Python costs about 1.5 us of the 9 us that a frame of 1514 bytes takes, and less
of the 25 to 50 us of a GSO frame; a C program with the same loop was no faster
than the spread between runs (docs/decisions.md).
"""

from __future__ import annotations

import os
import select
import sys

# More than the largest GSO frame that a TAP passes (tso_max_size 65536) with
# both its headers. Read and write give one frame a call, whatever the size.
BUFFER_BYTES = 1 << 17
# Frames taken from one side before the other gets its turn: an ACK must not
# wait for a whole window of data.
BATCH_FRAMES = 64
READY = b"ready\n"


def command() -> list[str]:
    """The argv that starts a pump. Its stdin and stdout must be descriptors from `attach_tap`.

    It writes READY to stderr, and closes it, when the frames that waited for it are through.
    """
    return [sys.executable, "-I", "-S", __file__]


def pump(one: int, other: int, ready: int) -> None:
    """Copy frames both ways for ever. OSError when one of the two devices is gone.

    `ready` is a descriptor that is told when it copies.
    """
    sinks = {one: other, other: one}
    buffer = bytearray(BUFFER_BYTES)
    poll = select.poll()
    for descriptor in sinks:
        os.set_blocking(descriptor, False)
        poll.register(descriptor, select.POLLIN)
        drain(descriptor, sinks[descriptor], buffer)
    os.write(ready, READY)
    os.close(ready)
    while True:
        for descriptor, _ in poll.poll():
            drain(descriptor, sinks[descriptor], buffer)


def drain(source: int, sink: int, buffer: bytearray) -> None:
    """Copy what is there, BATCH_FRAMES at most, through `buffer`: nothing is allocated for a frame."""
    view, vector = memoryview(buffer), [buffer]
    read, write = os.readv, os.write
    for _ in range(BATCH_FRAMES):
        try:
            length = read(source, vector)
        except BlockingIOError:
            return
        try:
            write(sink, view[:length])
        except OSError:
            # As on a wire whose far end is down: the frame is lost. A device
            # that is gone for good shows at the next read from it.
            continue


if __name__ == "__main__":
    try:
        pump(0, 1, ready=2)
    except OSError:
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
