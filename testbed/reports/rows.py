"""Every round's figures as CSV: tidy, one row for each round and metric."""

from __future__ import annotations

import csv
import io

from testbed.reports.data import Report

COLUMNS = ("run_id", "state", "kernel", "round", "block", "metric", "unit", "value")


def csv_report(report: Report) -> str:
    """Valid rounds that count, state by state; a packet size absent from a round stands there with 0."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for held in report.gathered.states.values():
        for metric in held.metrics():
            series = held.series(metric)
            unit = report.gathered.units[metric]
            for number, block, value in zip(series.rounds, series.blocks, series.values, strict=True):
                row = (
                    report.data.run_id,
                    held.state,
                    held.kernel,
                    number,
                    block,
                    metric,
                    unit,
                    f"{value:.15g}",
                )
                writer.writerow(row)
    return text.getvalue()
