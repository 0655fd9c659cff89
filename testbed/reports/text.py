"""The text report: a block for each state, then tables, fit for a cover letter."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace

from testbed.analysis.evidence_sums import first_stacks
from testbed.analysis.report import Report, ReportData
from testbed.reports import many_states, tables
from testbed.reports.figures_text import ascii_only, folded, in_gbit, table, wrapped
from testbed.reports.layouts import gain_grid, kernel_table

MOST_FUNCTIONS = 5  # of a profile; the other formats show all


def text_report(report: Report) -> str:
    """The whole report. At most 75 columns, but for the lines of packet sizes and long settings.

    A run of many states has a shorter one (many_states.py).
    """
    data = report.data
    if many_states.is_long(data):
        return _joined(_brief(report))
    states = tables.states_table(data)
    sections = [
        [f"{data.experiment}: {data.run_id}"],
        _wrapped(tables.notes(data)),
        *(_state(data, state) for state in data.states),
        _wrapped(tables.explanations_by_headers(data)),
        _table(states) if states else [],
        _grid(report),
        _comparisons(data),
        _profiles(data),
        _stacks(data),
        _wrapped([tables.rule_line(data)]),
        _wrapped(tables.expectation_lines(data)),
        _sureness(data),
        wrapped(data.method),
        command_lines(data.argv),
    ]
    return _joined(sections)


def _brief(report: Report) -> list[list[str]]:
    """The sections of a report with more states than fit with a block each."""
    data = report.data
    states, effects = tables.states_table(data), many_states.effects_table(data)
    grid = _grid(report)
    return [
        [f"{data.experiment}: {data.run_id}"],
        _wrapped(tables.notes(data)),
        grid,
        _table(states) if states and not grid else [],
        [effects.heading, *_table(effects), "", *_wrapped(many_states.verdict_lines(data))]
        if effects
        else [],
        _wrapped(tables.remarks(data)),
        _wrapped(many_states.expectation_counts(data)),
        _wrapped(many_states.axes_lines(report)),
        _wrapped([tables.rule_line(data)]),
        _sureness(data),
        wrapped(data.method),
        wrapped(many_states.pointer(data)),
        command_lines(data.argv),
    ]


def _joined(sections: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def command_lines(argv: Sequence[str], width: int = 75) -> list[str]:
    """The command that repeats the run, broken so that a shell takes it as it stands."""
    if not argv:
        return []
    lines, line = ["Repeat it with:"], " "
    for word in map(shlex.quote, argv):
        if len(line) + len(word) > width - 3 and line.strip():
            lines.append(f"{line} \\")
            line = "   "
        line += f" {word}"
    return [*lines, line]


def ascii_report(report: Report) -> str:
    """The text report for a list or terminal that wants no more than ASCII."""
    return ascii_only(text_report(report))


def _state(data: ReportData, state: str) -> list[str]:
    """`[84 rounds, big-tcp: mtu=1500 ...]`, the bitrate, then a line for each end and packet size."""
    summaries = data.states[state]
    lines = [f"[{tables.state_title(data, state)}]"]
    if "bits_per_second" in summaries:
        lines.append(f"bitrate Gbit/s: {in_gbit(summaries['bits_per_second'])}")
    lines += [f"{name}: {packets}" for name, packets in tables.size_rows(data, state)]
    return lines + [
        f"{title}: {words}"
        for title, words in (
            *tables.unseen_row(data, state),
            *tables.boots_row(data, state),
            *tables.state_rows(summaries),
        )
    ]


def _grid(report: Report) -> list[str]:
    if grid := gain_grid(report):
        return table(grid.header, grid.rows)
    if kernels := kernel_table(report):
        return [kernels.heading, *table(kernels.header, kernels.rows)]
    return []


def _comparisons(data: ReportData) -> list[str]:
    lines: list[str] = []
    for one in tables.comparison_tables(data):
        lines += [one.heading, *("  " + line for line in _table(one))]
    return lines + _wrapped(tables.remarks(data))


def _sureness(data: ReportData) -> list[str]:
    if checks := tables.sureness_table(data):
        return [*wrapped(f"{checks.heading}:"), *_table(checks), *_wrapped(tables.run_again_lines(data))]
    return _wrapped([tables.sureness_line(data)])


def _profiles(data: ReportData) -> list[str]:
    lines: list[str] = []
    for one in tables.profile_tables(data):
        shown = replace(one, rows=one.rows[:MOST_FUNCTIONS])
        lines += [*wrapped(one.heading), *("  " + line for line in _table(shown))]
    return lines


def _stacks(data: ReportData) -> list[str]:
    lines: list[str] = []
    for heading, note, frames in first_stacks(data.stacks):
        lines += [*wrapped(f"{heading}: {note}:", indent="  ")]
        lines += textwrap.wrap(
            " < ".join(frames), 75, initial_indent="  ", subsequent_indent="  ", break_long_words=False
        )
    return lines


def _table(one: tables.Table) -> list[str]:
    right = range(len(one.header) if one.right is None else one.right, len(one.header))
    return folded(one.header, one.rows, right=right)


def _wrapped(lines: Iterable[str]) -> list[str]:
    return [part for line in lines for part in wrapped(line, indent="  ")]
