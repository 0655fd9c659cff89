"""The report as Markdown, for a wiki, an issue or a merge request."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from testbed.analysis.evidence_sums import first_stacks
from testbed.analysis.report import Report, ReportData
from testbed.reports import tables
from testbed.reports.figures_text import in_gbit
from testbed.reports.layouts import kernel_table


def markdown_report(report: Report) -> str:
    """The whole report as GitHub's dialect of Markdown."""
    return "\n\n".join(_sections(report)) + "\n"


def _sections(report: Report) -> Iterator[str]:
    data = report.data
    yield f"# {data.experiment}"
    yield f"Run `{data.run_id}`, {data.status}."
    yield from (f"> {_safe(line)}" for line in tables.notes(data))
    if kernels := kernel_table(report):
        yield f"{_safe(kernels.heading)}:"
        yield _table(kernels.header, kernels.rows)
    states = tables.states_table(data)
    if states:
        yield "## States"
        yield _table(states.header, states.rows)
    for state, summaries in data.states.items():
        yield f"### {_safe(tables.state_title(data, state))}"
        rows = [["bitrate, Gbit/s", in_gbit(summaries["bits_per_second"])]] if _measured(data, state) else []
        rows += [[name, packets] for name, packets in tables.size_rows(data, state)]
        rows += [
            [title, words]
            for title, words in (
                *tables.unseen_row(data, state),
                *tables.boots_row(data, state),
                *tables.state_rows(summaries),
            )
        ]
        yield _table(["figure", "mean [95% CI] ±sd"], rows)
    if explained := tables.explanations(data):
        yield "## Packet sizes"
        yield _list(f"{size} = {words}" for size, words in explained)
    compared = list(tables.comparison_tables(data))
    if compared:
        yield "## Comparisons"
        for one in compared:
            yield f"{_safe(one.heading)}:"
            yield _table(one.header, one.rows)
        yield from (_safe(line) for line in tables.remarks(data))
    for one in tables.profile_tables(data):
        yield f"{_safe(one.heading)}:"
        yield _table(one.header, one.rows)
    if data.stacks:
        yield "## Kernel stacks of large packets"
        for heading, note, frames in first_stacks(data.stacks):
            yield f"{_safe(heading)}: {_safe(note)}."
            yield "```\n" + "\n".join(frames) + "\n```"
    if data.expectations:
        yield "## Expectations"
        yield _list(tables.expectation_lines(data))
    if checks := tables.sureness_table(data):
        yield f"## Checks\n\n{_safe(checks.heading)}:"
        yield _table(checks.header, checks.rows)
        if again := tables.run_again_lines(data):
            yield _list(again)
    elif line := tables.sureness_line(data):
        yield _safe(line)
    yield "## How it was measured"
    yield _safe(data.method)
    if data.rules:
        yield _safe(tables.rule_line(data))
    if data.argv:
        yield f"```sh\n{shlex.join(data.argv)}\n```"


def _measured(data: ReportData, state: str) -> bool:
    return "bits_per_second" in data.states[state]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_safe(cell) for cell in line) + " |" for line in lines)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_safe(line)}" for line in lines)


def _safe(text: str) -> str:
    """Text that Markdown shows as it stands."""
    for mark in "\\|*<":
        text = text.replace(mark, "\\" + mark)
    return text
