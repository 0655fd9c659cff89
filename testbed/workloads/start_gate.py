"""Wait for the start line: read one byte from stdin, then execute the command in the arguments.

    python -I -S start_gate.py [--join-stderr] COMMAND ARGUMENT...

Programs that start their test at once take part in a common start by it. End
of file in place of the line means that nobody waits for the result any more.
With --join-stderr what the command writes to stderr comes out on stdout.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    command = sys.argv[1:]
    if command[0] == "--join-stderr":
        os.dup2(1, 2)
        command = command[1:]
    # Unbuffered: what follows the line on stdin belongs to the command.
    if os.read(0, 1):
        os.execvp(command[0], command)
