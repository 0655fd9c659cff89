"""Errors for users, each with its exit status.

Every message is one line for the person who has to act: where (file:line or
node:device), what is wrong, and what to do about it.
"""


class TestbedError(Exception):
    """A failure while working: a link that would not come up, a workload that died.

    shown: lines to be printed under the message as they are, such as the hunk that failed.
    """

    __test__ = False  # pytest: a name that starts with Test is not a test here
    exit_status = 1
    shown = ""


class InputError(TestbedError):
    """Something the user wrote is wrong: a file, a name, an option."""

    exit_status = 2


class MissingCapability(TestbedError):
    """The kernel, the machine or a tool lacks what is needed; says what, and how to get it."""

    exit_status = 3


_CHUNK = 2**16


def printable(text: str, keep: str = "") -> str:
    """`text` without commands to a terminal: what cannot be printed, and is not in `keep`, as its escape.

    A report may have 100 MB: it is looked at piece by piece, and copied only where it must change.
    """
    kept = str.maketrans("", "", keep)
    pieces = (text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK))
    if all(piece.translate(kept).isprintable() for piece in pieces):
        return text
    changed = {c for c in set(text) if c not in keep and not c.isprintable()}
    return text.translate({ord(c): ascii(c)[1:-1] for c in changed})
