"""Plain text in columns, for a terminal or a mail."""

from __future__ import annotations

from collections.abc import Container, Sequence


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """A line for each row, columns as wide as their widest cell; those in `right` end where they end."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
