"""The report as one HTML file that needs no network: figures first, then tables, then where it came from."""

from __future__ import annotations

import shlex
from importlib.resources import files

from testbed.analysis.evidence_sums import first_stacks
from testbed.analysis.metric_key import packet_size
from testbed.analysis.report import Report
from testbed.reports import svg, tables
from testbed.reports.figures import css, figures
from testbed.reports.figures_text import spread
from testbed.reports.layouts import kernel_table
from testbed.reports.many_states import axes_lines, effects_table, expectation_counts, is_long, verdict_lines


def html_report(report: Report) -> str:
    """The whole report. Styles, figures and text alternatives are inside."""
    from jinja2 import Environment, StrictUndefined

    source = files("testbed.reports").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    data, long = report.data, is_long(report.data)
    return environment.from_string(source).render(
        data=data,
        run=report.run,
        notes=tables.notes(data),
        long=long,
        legend=[(svg.mark(5, 5, index, css(index)), name) for index, name in enumerate(_kinds(report))],
        titles=[tables.state_title(data, name) for name in data.states],
        axes=list(axes_lines(report)),
        figures=figures(report),
        kernels=kernel_table(report),
        states=tables.states_table(data),
        sizes={name: list(tables.size_rows(data, name)) for name in data.states},
        beside={
            name: [
                *tables.unseen_row(data, name),
                *tables.boots_row(data, name),
                *tables.state_rows(held),
            ]
            for name, held in data.states.items()
        },
        profiles=list(tables.profile_tables(data)),
        stacks=first_stacks(data.stacks),
        rule=tables.rule_line(data),
        checks=tables.sureness_table(data),
        checks_line=tables.sureness_line(data),
        run_again=tables.run_again_lines(data),
        explanations=tables.explanations(data),
        comparisons=[effects_table(data)] if long else list(tables.comparison_tables(data)),
        remarks=[*(verdict_lines(data) if long else []), *tables.remarks(data)],
        expectations=expectation_counts(data) if long else tables.expectation_lines(data),
        metrics=[
            (state, name, summary.unit, spread(summary))
            for state, held in data.states.items()
            for name, summary in held.items()
            if not packet_size(name)
        ],
        command=shlex.join(data.argv),
    )


def _kinds(report: Report) -> list[str]:
    """What the colours stand for: the states, or of many states the kernels."""
    data = report.data
    if is_long(data):
        return list(data.kernels)
    return [tables.state_title(data, name) for name in data.states]
