"""The report for CI systems: each state and each expectation is a test, as JUnit XML or KTAP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from testbed.analysis.report import Report, ReportData
from testbed.reports.figures_text import in_gbit


@dataclass(frozen=True)
class Case:
    """A test: its name, how it ended, and one line on what was found or why it was skipped."""

    name: str
    outcome: Literal["pass", "fail", "skip"]
    text: str


def cases(data: ReportData) -> Iterator[Case]:
    """A state passes when every block that any state has was measured validly; then the expectations."""
    most = max((counts.valid for counts in data.rounds.values()), default=0)
    for state, counts in data.rounds.items():
        bitrate = data.states[state].get("bits_per_second")
        found = f"{counts.valid} rounds" + (f", {in_gbit(bitrate)} Gbit/s" if bitrate else "")
        whole = counts.valid == most and data.status == "complete"
        yield Case(
            f"state {state}", "pass" if whole else "fail", found if whole else _missing(data, state, most)
        )
    for state, reason in data.skipped.items():
        yield Case(f"state {state}", "skip", reason)
    for one in data.expectations:
        yield Case(f"expect {one.expectation}", "pass" if one.holds else "fail", f"found {one.found}")


def junit_report(report: Report) -> str:
    """JUnit XML as Jenkins, GitLab and pytest write it: one suite, one test case each."""
    found = list(cases(report.data))
    suite = ElementTree.Element(
        "testsuite",
        name=report.data.experiment,
        tests=str(len(found)),
        failures=str(sum(case.outcome == "fail" for case in found)),
        errors="0",
        skipped=str(sum(case.outcome == "skip" for case in found)),
        timestamp=report.run.started,
    )
    for case in found:
        element = ElementTree.SubElement(suite, "testcase", classname=report.data.experiment, name=case.name)
        if case.outcome == "fail":
            ElementTree.SubElement(element, "failure", message=case.text)
        elif case.outcome == "skip":
            ElementTree.SubElement(element, "skipped", message=case.text)
        else:
            ElementTree.SubElement(element, "system-out").text = case.text
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def ktap_report(report: Report) -> str:
    """KTAP version 1 (Documentation/dev-tools/ktap.rst), as kselftest writes it."""
    found = list(cases(report.data))
    lines = ["KTAP version 1", f"1..{len(found)}"]
    for number, case in enumerate(found, start=1):
        word = "not ok" if case.outcome == "fail" else "ok"
        name = case.name.replace("#", " ")
        skip = f" # SKIP {case.text}" if case.outcome == "skip" else ""
        if not skip:
            lines.append(f"# {case.text}")
        lines.append(f"{word} {number} {name}{skip}")
    return "\n".join(lines) + "\n"


def _missing(data: ReportData, state: str, most: int) -> str:
    """Why a state does not pass."""
    reasons = [one.reason for one in data.invalid if one.state == state]
    last = f"; last invalid round: {reasons[-1]}" if reasons else ""
    return f"{data.rounds[state].valid} of {most} rounds, run {data.status}{last}"
