"""Reserve huge pages of 2 MB while stdin is open, then give them back.

    python -I -S hugepages_keeper.py COUNT

It is a process of its own, and deliberately not killed with the program that
started it: the reservation belongs to the machine, and must be given back when
that program is gone, SIGKILL included. It prints `ok`, or one line that says
why not (then it has given everything back).
"""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


def main(count: int) -> int:
    """Keep `count` huge pages at hand; the exit status."""
    try:
        added, free = add(count)
    except OSError as error:
        print(f"no huge pages of 2 MB: {error.strerror} ({error.filename})", flush=True)
        return 1
    try:
        if free < count:
            print(f"the kernel has {free} free huge pages of 2 MB, {count} are needed", flush=True)
            return 1
        print("ok", flush=True)
        sys.stdin.buffer.read()
        return 0
    finally:
        change(-added)


def add(count: int) -> tuple[int, int]:
    """Raise the reservation by `count` pages; by how many it rose, and how many are free then.

    Pages that are free already may be promised to another flow, so they count only
    where the kernel gives no more. It takes no more than half of the memory that is
    available: the kernel would push everything else out to give what is asked.
    """
    return change(count) if count <= _available() // 2 else 0, _free()


def change(difference: int) -> int:
    """Change the machine's reservation, under a lock; the difference that the kernel made of it."""
    with (POOL / "nr_hugepages").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = int(file.read())
        file.seek(0)
        file.write(f"{before + difference}\n")
        file.flush()
        return _number("nr_hugepages") - before


def _free() -> int:
    return _number("free_hugepages") - _number("resv_hugepages")


def _available() -> int:
    """MemAvailable, in huge pages."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return int(kilobytes) // 2048


def _number(name: str) -> int:
    return int((POOL / name).read_text())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
