"""What the report of ten thousand rounds costs: CPU time and peak memory of each format, a process each.

The rounds are one recorded round of an iperf3 flow, varied (tests/unit/made_many.py): 18 KB a line,
with sizes that only a few rounds saw. The limits are 5 s and 300 MB for the text report; beside other
work the CPU is slower too, so the fastest of a few is judged.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))

from made_many import many_lines, many_run  # type: ignore[import-not-found]

from testbed.records.store import ROUNDS, write_run

LIMIT_S, LIMIT_MB = 5.0, 300.0
FORMATS = ("text", "html", "json", "csv")
LIMITED = "text"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=10_000)
    arguments.add_argument("--repeat", type=int, default=3)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(folder, many_run())
        with (folder / ROUNDS).open("w") as file:
            file.writelines(many_lines(options.rounds))
        print(f"{options.rounds} rounds, {(folder / ROUNDS).stat().st_size / 1e6:.0f} MB")
        costs = {format: [cost(folder, format) for _ in range(options.repeat)] for format in FORMATS}
    for format, held in costs.items():
        seconds, memory = min(one[0] for one in held), max(one[1] for one in held)
        print(f"{format}: {seconds:.2f} s of CPU in the fastest of {len(held)}, {memory:.0f} MB at most")
    limited = [(seconds / LIMIT_S, megabytes / LIMIT_MB) for seconds, megabytes in costs[LIMITED]]
    times, sizes = (sorted(one) for one in zip(*limited, strict=True))
    for name, ratios in ((f"CPU time / {LIMIT_S:g} s", times), (f"peak memory / {LIMIT_MB:g} MB", sizes)):
        print(f"{LIMITED} report, {name}: {median(ratios):.2f}x [{ratios[0]:.2f}, {ratios[-1]:.2f}]")
    return 0 if times[0] < 1 and sizes[-1] < 1 else 1


def cost(folder: Path, format: str) -> tuple[float, float]:
    """CPU seconds (user and system) and peak memory in MB of one `testbed report`."""
    command = [sys.executable, "-m", "testbed", "report", str(folder), "--format", format]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
