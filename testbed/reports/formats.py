"""The formats of reports. A further one is one file and one line here."""

from collections.abc import Mapping

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
