"""Render the report of a run's folder in any format."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from testbed.analysis.reading import read_report
from testbed.analysis.report import Report
from testbed.errors import InputError
from testbed.reports.formats import FORMATS, WHOLE
from testbed.yamlfile import did_you_mean


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
