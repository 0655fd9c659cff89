"""One end of one iperf3 test: the process that runs inside a node.

    python -I -S iperf3_worker.py FOLDER-OF-THE-BINDING OPTION...

It is a process of its own because libiperf exits on an unknown option, keeps
global state and cannot run twice; it imports as little as it can because every
round starts two of it. The options are those of the `iperf3` command. A client
waits for a line on stdin before it connects, so that it can be started beside
its server. What comes out on stdout: a client's line `started` at the moment
the test starts (the warm-up seconds begin), then the JSON as libiperf prints
it. Errors that are not in the JSON go to stderr in the library's words. Exit
status 1 for those, else 0: libiperf 3.12 calls a refused connection a success,
so the JSON's `error` has the last word.
"""

from __future__ import annotations

import ctypes
import os
import sys

LIBRARY = "libiperf.so.0"  # by its name: the binding's own search runs ldconfig and the compiler


def main(folder: str, options: list[str]) -> int:
    """Run the test that `options` describe; the exit status."""
    sys.path.append(folder)
    import iperf3

    client = "-c" in options
    binding = iperf3.IPerf3("c" if client else "s", verbose=False, lib_name=LIBRARY)
    lib, test = binding.lib, ctypes.c_void_p(binding._test)
    if _parse(lib, test, options) != 0:
        return _fail(lib, "parameter error")
    if not client:
        return 0 if lib.iperf_run_server(test) >= 0 else _fail(lib, "error")
    binding.started = _tell_start(lib, test)  # libiperf holds its address: it must stay alive
    if not sys.stdin.buffer.readline():
        return 0  # the other side of the pipe is gone: nobody waits for a result
    return 0 if lib.iperf_run_client(test) >= 0 else _fail(lib, "error")


def _parse(lib: ctypes.CDLL, test: ctypes.c_void_p, options: list[str]) -> int:
    """libiperf's own parser. It exits the process on an option that it does not know."""
    argv = [b"iperf3", *(os.fsencode(option) for option in options)]
    ctypes.c_int.in_dll(ctypes.CDLL(None), "optind").value = 0
    array = (ctypes.c_char_p * (len(argv) + 1))(*argv, None)
    return int(lib.iperf_parse_arguments(test, len(argv), array))


def _tell_start(lib: ctypes.CDLL, test: ctypes.c_void_p) -> object:
    """Have libiperf report the test's start on stdout.

    `struct iperf_test` holds the function it calls then. Its offset differs
    between versions and 3.12 exports no setter, so look for the one word that
    holds the default function, and put ours there, which goes on to the default.
    """
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    default = signature(("iperf_on_test_start", lib))

    def started(running: int) -> None:
        os.write(1, b"started\n")
        default(running)

    notice = signature(started)
    size = ctypes.CDLL(None).malloc_usable_size(test)
    words = (ctypes.c_void_p * (size // ctypes.sizeof(ctypes.c_void_p))).from_address(test.value or 0)
    address = ctypes.cast(default, ctypes.c_void_p).value
    (index,) = (index for index, word in enumerate(words) if word == address)
    words[index] = ctypes.cast(notice, ctypes.c_void_p).value
    return notice


def _fail(lib: ctypes.CDLL, kind: str) -> int:
    lib.iperf_strerror.restype = ctypes.c_char_p
    text = lib.iperf_strerror(ctypes.c_int.in_dll(lib, "i_errno")) or b"unknown"
    sys.stderr.write(f"iperf3: {kind} - {text.decode(errors='replace').strip()}\n")
    return 1


if __name__ == "__main__":
    try:
        status = main(sys.argv[1], sys.argv[2:])
    except (ImportError, OSError, AttributeError, ValueError) as error:
        # Another libiperf than those we know: one that does not load, or lacks what we call.
        sys.stderr.write(f"iperf3: {LIBRARY}: {error}\n")
        status = 1
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(status)  # what the interpreter and libiperf would free is the kernel's to free
