"""Figures as text, the same in every format."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from testbed.analysis.report import ComparisonData, MetricSummary
from testbed.text_columns import aligned


def ascii_only(text: str) -> str:
    """`text` for a terminal or a list that wants no more than ASCII."""
    return text.replace("±", "+-").encode("ascii", "backslashreplace").decode()


def in_gbit(summary: MetricSummary) -> str:
    """A summary of bits per second as Gbit/s: `241.35 [239.81, 242.91] ±7.17`."""
    return spread(summary, 1e-9)


def spread(summary: MetricSummary, scale: float = 1.0) -> str:
    """`mean [95% interval] ±sd` with two decimals; only the mean where one round is all there is."""
    mean = f"{summary.mean * scale:.2f}"
    if summary.ci95 is None or summary.sd is None:
        return f"{mean} (one round)"
    low, high = summary.ci95
    return f"{mean} [{low * scale:.2f}, {high * scale:.2f}] ±{summary.sd * scale:.2f}"


def with_interval(summary: MetricSummary) -> str:
    """`0.284 [0.270, 0.298]`; only the mean where one round is all there is."""
    mean, *ends = (f"{one:#.3g}".rstrip(".") for one in (summary.mean, *(summary.ci95 or ())))
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def short(value: float) -> str:
    """Four digits, or all of a large number."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ratio_words(ratio: float, interval: tuple[float, float] | None = None) -> str:
    """A ratio as a signed change with its interval, `+4.8% [+3.1%, +6.5%]`; all as factors from 3 on."""
    ends = interval or ()
    factors = max(ratio, *ends) >= 3 if ends else ratio >= 3
    texts = [f"{one:.2f}x" if factors else f"{(one - 1) * 100:+.1f}%" for one in (ratio, *ends)]
    return f"{texts[0]} [{', '.join(texts[1:])}]" if ends else texts[0]


def effect(comparison: ComparisonData) -> str:
    """The same of a comparison."""
    if comparison.effect is None:
        return "0 in some rounds"
    return ratio_words(comparison.effect, comparison.ci95)


def p_value(p: float | None) -> str:
    if p is None:
        return ""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Lines of a plain table; columns in `right` are aligned to the right."""
    return aligned([header, *rows], right)


def folded(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), width: int = 75
) -> list[str]:
    """The same; columns that do not fit into `width` follow in further tables, each with the first column."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    parts: list[list[int]] = [[0]]
    for i in range(1, len(columns)):
        if len(parts[-1]) > 1 and sum(widths[k] + 2 for k in parts[-1]) + widths[i] > width:
            parts.append([0])
        parts[-1].append(i)
    lines: list[str] = []
    for part in parts:
        picked = [[row[i] for i in part] for row in rows]
        places = [place for place, i in enumerate(part) if i in right]
        lines += [*([""] if lines else []), *table([header[i] for i in part], picked, right=places)]
    return lines


def wrapped(text: str, width: int = 75, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
