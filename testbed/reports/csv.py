"""Every round's figures as CSV: tidy, one row for each round and metric."""

from __future__ import annotations

import csv
import io

from testbed.analysis.metrics import unit_of
from testbed.analysis.report import Report, main_sizes

COLUMNS = ("run_id", "state", "kernel", "round", "block", "metric", "unit", "value")


def csv_report(report: Report) -> str:
    """Valid rounds that count, state by state.

    A packet size that carries 1% of its side in that state stands with 0 in the rounds without it. Of a
    rarer one only the rounds that saw it are rows: ten thousand rounds have thousands of those.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for state, state_rounds in report.columns.states.items():
        main = main_sizes(report.data.states[state])
        for metric in state_rounds.metrics():
            series = state_rounds.series(metric) if metric in main else state_rounds.seen(metric)
            unit = unit_of(metric)
            for number, block, value in zip(series.rounds, series.blocks, series.values, strict=True):
                row = (
                    report.data.run_id,
                    state_rounds.state,
                    state_rounds.kernel,
                    number,
                    block,
                    metric,
                    unit,
                    f"{value:.15g}",
                )
                writer.writerow(row)
    return text.getvalue()
