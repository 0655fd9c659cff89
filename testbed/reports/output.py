"""A run's folder made into a report. A further format is one file and one line in FORMATS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from testbed.errors import InputError
from testbed.reports.data import ReportData
from testbed.yamlfile import did_you_mean

# Format -> module and function (ReportData -> str); imported only when asked for.
FORMATS: Mapping[str, tuple[str, str]] = {
    "text": ("testbed.reports.text", "text_report"),
    "ascii": ("testbed.reports.text", "ascii_report"),
    "json": ("testbed.reports.output", "json_report"),
}

# What `testbed report` leaves in the run's folder, beside printing it.
KEPT = {"text": "report.txt", "html": "report.html"}


def render(folder: Path, format: str) -> str:
    """The run in `folder` as `format`. InputError for an unknown format or what is no run."""
    maker = report_maker(format)
    return maker(read_report(folder))


def read_report(folder: Path) -> ReportData:
    """The report's data of the run in `folder`; InputError for what is no run."""
    from testbed.experiments.store import open_run
    from testbed.reports.data import report_data

    stored = open_run(folder)
    return report_data(stored.run, stored.rounds(), stored.problems)


def report_maker(format: str) -> Callable[[ReportData], str]:
    """The function that makes `format` out of a report's data."""
    if format not in FORMATS:
        hint = did_you_mean(format, list(FORMATS)) or f"; there are {', '.join(FORMATS)}"
        raise InputError(f"report: no format '{format}'{hint}")
    module, function = FORMATS[format]
    return cast(Callable[[ReportData], str], getattr(import_module(module), function))


def json_report(data: ReportData) -> str:
    """The data itself, indented."""
    return data.model_dump_json(by_alias=True, indent=2) + "\n"
