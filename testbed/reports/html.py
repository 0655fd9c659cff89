"""The report as one HTML file that needs no network: figures first, then tables, then where it came from."""

from __future__ import annotations

import shlex
from importlib.resources import files

from testbed.reports import svg, tables
from testbed.reports.data import Report
from testbed.reports.evidence import first_stacks
from testbed.reports.figures import css, figures
from testbed.reports.layouts import kernel_table
from testbed.reports.words import spread


def html_report(report: Report) -> str:
    """The whole report. Styles, figures and text alternatives are inside."""
    from jinja2 import Environment, StrictUndefined

    source = files("testbed.reports").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    data = report.data
    return environment.from_string(source).render(
        data=data,
        run=report.run,
        notes=tables.notes(data),
        legend=[
            (svg.mark(5, 5, index, css(index)), tables.state_title(data, name))
            for index, name in enumerate(data.states)
        ],
        figures=figures(report),
        kernels=kernel_table(report),
        states=tables.states_table(data),
        sizes={name: list(tables.size_rows(data, name)) for name in data.states},
        beside={
            name: [*tables.boots_row(data, name), *tables.state_rows(held)]
            for name, held in data.states.items()
        },
        profiles=list(tables.profile_tables(data)),
        stacks=first_stacks(data.stacks),
        rule=tables.rule_line(data),
        explanations=tables.explanations(data),
        comparisons=list(tables.comparison_tables(data)),
        remarks=tables.remarks(data),
        expectations=tables.expectation_lines(data),
        metrics=[
            (state, name, summary.unit, spread(summary))
            for state, held in data.states.items()
            for name, summary in held.items()
            if name.count(" ") < 2 or not name.rpartition(" ")[2].isdigit()
        ],
        command=shlex.join(data.argv),
    )
