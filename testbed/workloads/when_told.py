"""Becomes a command when told to: reads one line from stdin, then executes its arguments.

    python -I -S when_told.py COMMAND ARGUMENT...

It lets a program that starts its test at once take part in a common start. End
of file in place of the line means that nobody waits for the result any more.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Unbuffered: what follows the line on stdin belongs to the command.
    if os.read(0, 1):
        os.execvp(sys.argv[1], sys.argv[1:])
