"""A run's folder made into a report. A further format is one file and one line in FORMATS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from testbed.analysis.reading import read_report
from testbed.analysis.report import Report
from testbed.errors import InputError
from testbed.yamlfile import did_you_mean

# Format -> module and function (Report -> str); imported only when asked for.
FORMATS: Mapping[str, tuple[str, str]] = {
    "text": ("testbed.reports.text", "text_report"),
    "ascii": ("testbed.reports.text", "ascii_report"),
    "json": ("testbed.reports.output", "json_report"),
    "markdown": ("testbed.reports.markdown", "markdown_report"),
    "table": ("testbed.reports.layouts", "table_report"),
    "html": ("testbed.reports.html", "html_report"),
    "csv": ("testbed.reports.csv", "csv_report"),
    "junit": ("testbed.reports.ci", "junit_report"),
    "ktap": ("testbed.reports.ci", "ktap_report"),
}

# They tell each packet size, however rare; json compares every metric.
WHOLE = ("json", "csv")

# What `testbed report` leaves in the run's folder, beside printing it.
KEPT = {"text": "report.txt", "html": "report.html"}


def render(folder: Path, format: str) -> str:
    """The run in `folder` as `format`. InputError for an unknown format or what is no run."""
    maker = report_maker(format)
    return maker(read_report(folder, whole=format in WHOLE))


def report_maker(format: str) -> Callable[[Report], str]:
    """The function that makes a report into `format`."""
    if format not in FORMATS:
        hint = did_you_mean(format, list(FORMATS)) or f"; there are {', '.join(FORMATS)}"
        raise InputError(f"report: no format '{format}'{hint}")
    module, function = FORMATS[format]
    return cast(Callable[[Report], str], getattr(import_module(module), function))


def json_report(report: Report) -> str:
    """The data itself, indented."""
    return report.data.model_dump_json(by_alias=True, indent=2) + "\n"
