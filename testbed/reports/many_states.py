"""The text report of a run with many states, cut to two pages for a mailing list.

Tables over all states stand first; the sizes, cores and TCP state of each are left to the other formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.analysis.description import settings_words
from testbed.analysis.metrics import BITS
from testbed.analysis.report import ComparisonData, Report, ReportData
from testbed.reports.figures_text import effect, p_value
from testbed.reports.tables import Table, compared

MOST_STATES = 8  # with a block of their own, some 20 lines each


def is_long(data: ReportData) -> bool:
    """Whether the report has more states than fit with a block each."""
    return len(data.states) > MOST_STATES


def effects_table(data: ReportData) -> Table | None:
    """The bitrate of each compared pair, a row each; None without any."""
    shown = bitrates(data)
    if not shown:
        return None
    heading, names = pair_names(data, shown)
    rows = [[name, effect(one), p_value(one.p_holm)] for name, one in zip(names, shown, strict=True)]
    return Table(f"Bitrate, {heading}", ["state", "b/a [95% CI]", "p"], rows)


def verdict_lines(data: ReportData) -> Iterator[str]:
    """`b higher: lower-ipv4, lower-ipv6.`, of each verdict that some pair got."""
    shown = bitrates(data)
    _, names = pair_names(data, shown)
    verdicts: dict[str, list[str]] = {}
    for name, one in zip(names, shown, strict=True):
        verdicts.setdefault(one.verdict, []).append(name)
    for verdict, pairs in verdicts.items():
        yield f"{verdict}: {'all' if len(pairs) == len(shown) else ', '.join(pairs)}."


def expectation_counts(data: ReportData) -> list[str]:
    """How many expectations are met, then those that are not."""
    unmet = [one for one in data.expectations if not one.holds]
    if not data.expectations:
        return []
    lines = [f"Expectations met: {len(data.expectations) - len(unmet)} of {len(data.expectations)}."]
    return lines + [f"NOT MET: {one.expectation} (found {one.found})" for one in unmet]


def axes_lines(report: Report) -> Iterator[str]:
    """What the words in the names of a matrix's states stand for, axis by axis."""
    axes: Mapping[str, Mapping[str, Mapping[str, Any]]]
    axes = (report.run.experiment.get("matrix") or {}).get("axes") or {}
    for axis, values in axes.items():
        text = "; ".join(f"{name} ({_value(body) or 'as it is'})" for name, body in values.items())
        yield f"{axis}: {text}."


def pointer(data: ReportData) -> str:
    """Where the rest is."""
    return (
        f"Packet sizes, cores and TCP of each of the {len(data.states)} states: "
        "`testbed report RUN --format html`, or markdown, csv, json."
    )


def pair_names(data: ReportData, shown: Sequence[ComparisonData]) -> tuple[str, list[str]]:
    """What the pairs have in common, and what each is called beside that.

    Across two kernels that is the state's name; in one kernel `b / a`.
    """
    kernels = {(data.measured[one.a].kernel, data.measured[one.b].kernel) for one in shown}
    if len(kernels) == 1 and len(data.kernels) > 1:
        ((a, b),) = kernels
        return f"a = {a}, b = {b}", [data.measured[one.b].state for one in shown]
    return "b / a", [f"{one.b} / {one.a}" for one in shown]


def bitrates(data: ReportData) -> list[ComparisonData]:
    """The comparisons of the bitrate."""
    return [one for one in compared(data) if one.metric == BITS]


def _value(body: Mapping[str, Any]) -> str:
    """One value of an axis: topology, options and settings."""
    words = [f"topology {body['topology']}"] if "topology" in body else []
    words += [f"{key}={value}" for key, value in (body.get("workload") or {}).items()]
    words += [f"{key} {value}" for key, value in body.items() if key in ("cpus", "kernel")]
    return " ".join([*words, *settings_words(body.get("settings") or {})])
