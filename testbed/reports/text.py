"""The text report: a block for each state, then tables, fit for a cover letter."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from testbed.reports.data import ComparisonData, MetricSummary, Report, ReportData, main_sizes
from testbed.reports.metrics import size_of
from testbed.reports.words import ascii_only, effect, in_gbit, p_value, spread, table, wrapped
from testbed.stats.compare import least_pairs

# What the tables show beside the bitrate, where a run has it.
TABLE_METRICS = ("retransmits", "cpu_s_per_gb")
_TITLES = {"bits_per_second": "bitrate", "cpu_s_per_gb": "CPU s/GB"}


def text_report(report: Report) -> str:
    """The whole report. At most 75 columns, but for the lines of packet sizes and long settings."""
    data = report.data
    sections = [
        [f"{data.experiment}: {data.run_id}"],
        _notes(data),
        *(_state(data, state) for state in data.states),
        _explained(data),
        _states_table(data),
        _comparison_table(data),
        _expectations(data),
        wrapped(data.method),
        _repeat(data),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def ascii_report(report: Report) -> str:
    """The text report for a list or terminal that wants no more than ASCII."""
    return ascii_only(text_report(report))


def _notes(data: ReportData) -> list[str]:
    """What a reader must know before the figures."""
    lines = [line for problem in data.problems for line in wrapped(f"Note: {problem}.", indent="  ")]
    for state, reason in data.skipped.items():
        lines += wrapped(f"Skipped: {state}: {reason}", indent="  ")
    if data.invalid:
        count = len(data.invalid)
        lines.append(f"{count} invalid {'round does' if count == 1 else 'rounds do'} not count:")
        for one in data.invalid[:5]:
            lines += wrapped(f"  round {one.round}, {one.state}: {one.reason}", indent="    ")
        if count > 5:
            lines.append(f"  and {count - 5} more")
    return lines


def _state(data: ReportData, state: str) -> list[str]:
    """`[84 rounds, big-tcp: mtu=1500 ...]`, the bitrate, then a line for each end and packet size."""
    summaries, count = data.states[state], data.rounds[state].valid
    header = data.headers.get(state, "")
    rounds = "1 round" if count == 1 else f"{count} rounds"
    lines = [f"[{rounds}, {state}: {header}]" if header else f"[{rounds}, {state}]"]
    if "bits_per_second" in summaries:
        lines.append(f"bitrate Gbit/s: {in_gbit(summaries['bits_per_second'])}")
    return lines + list(_size_lines(summaries))


def _size_lines(summaries: dict[str, MetricSummary]) -> Iterator[str]:
    main = main_sizes(summaries)
    for side in shown_sides(summaries):
        names = [name for name in summaries if size_of(name) and name.startswith(f"{side} ")]
        shown = [name for name in names if name in main]
        for name in shown:
            summary = summaries[name]
            yield f"{name}: {spread(summary)}{_seen(summary)}"
        if count := len(names) - len(shown):
            rest = 1 - sum(main[name][1] for name in shown)
            more = f"{count} more size{'s' if count > 1 else ''}"
            yield f"{side}, {more}: {max(0.0, rest):.2%} of the bytes"


def _explained(data: ReportData) -> list[str]:
    """The arithmetic behind the sizes that stand above, each once."""
    words: dict[tuple[int, str], None] = {}
    for summaries in data.states.values():
        for name in main_sizes(summaries):
            _, _, size = size_of(name) or ("", "", 0)
            explained = summaries[name].explained
            if explained:
                words[(size, explained)] = None
    lines = [wrapped(f"{size} = {explained}", indent="    ") for size, explained in sorted(words)]
    return [line for one in lines for line in one]


def shown_sides(summaries: dict[str, MetricSummary]) -> list[str]:
    """`NODE:DEVICE rx` of every device; a tx side only where no rx side shows the same sizes.

    On a veth pair what one end sends is what the other receives: saying it once is enough.
    """
    sides: dict[str, set[int]] = {}
    for name in main_sizes(summaries):
        place, direction, size = size_of(name) or ("", "", 0)
        sides.setdefault(f"{place} {direction}", set()).add(size)
    received = [sizes for side, sizes in sides.items() if side.endswith(" rx")]
    return [side for side, sizes in sides.items() if side.endswith(" rx") or sizes not in received]


def _seen(summary: MetricSummary) -> str:
    if summary.rounds_seen in (None, summary.n):
        return ""
    return f", in {summary.rounds_seen} of {summary.n} rounds"


def _states_table(data: ReportData) -> list[str]:
    """One row for each state: bitrate with its interval, and the figures beside it."""
    if not any("bits_per_second" in summaries for summaries in data.states.values()):
        return []
    beside = [name for name in TABLE_METRICS if any(name in held for held in data.states.values())]
    header = ["state", "rounds", "Gbit/s [95% CI]", *(_TITLES.get(name, name) for name in beside)]
    rows = [
        [
            state,
            str(data.rounds[state].valid),
            in_gbit(summaries["bits_per_second"]).split(" ±")[0] if "bits_per_second" in summaries else "",
            *(f"{summaries[name].mean:.4g}" if name in summaries else "" for name in beside),
        ]
        for state, summaries in data.states.items()
    ]
    return table(header, rows, right=range(3, len(header)))


def _comparison_table(data: ReportData) -> list[str]:
    """Two lines of words, then a row for each comparison of the bitrate and the figures beside it."""
    shown = [one for one in data.comparisons if one.metric in ("bits_per_second", *TABLE_METRICS)]
    if not shown:
        return []
    lines: list[str] = []
    for a, b in dict.fromkeys((one.a, one.b) for one in shown):
        ours = [one for one in shown if (one.a, one.b) == (a, b)]
        rows = [
            [_TITLES.get(one.metric, one.metric), effect(one), p_value(one.p_holm), one.verdict]
            for one in ours
        ]
        pairs = ours[0].pairs
        lines += [f"a = {a}, b = {b}, {pairs} pairs"]
        lines += ["  " + row for row in table(["metric", "b/a [95% CI]", "p", "verdict"], rows)]
    return lines + _remarks(shown)


def _remarks(shown: Sequence[ComparisonData]) -> list[str]:
    """What the table cannot say: how many rounds are missing, p's adjustment, drift."""
    bitrates = [one for one in shown if one.metric == "bits_per_second"]
    lines = []
    if any(one.verdict == "too few rounds" for one in bitrates):
        needed = least_pairs(len(bitrates))
        lines.append(f"Too few rounds: {len(bitrates)} comparison(s) need at least {needed} pairs each.")
    if len(bitrates) > 1:
        lines.append(f"p is adjusted for {len(bitrates)} comparisons (Holm).")
    drifting = [one for one in bitrates if one.drift and one.drift.p < 0.05]
    for one in drifting:
        assert one.drift is not None
        lines.append(
            f"The bitrate drifted over the run by {one.drift.change:+.1%} ({one.a}, {one.b}; "
            f"p {p_value(one.drift.p)}); pairs within blocks are not biased by it."
        )
    return [line for text in lines for line in wrapped(text, indent="  ")]


def _expectations(data: ReportData) -> list[str]:
    """Each expectation with what was found, those that are not met first."""
    words = {True: "met", False: "NOT MET", None: "NOT SHOWN"}
    held = sorted(data.expectations, key=lambda one: one.holds is True)
    return [
        line
        for one in held
        for line in wrapped(f"{words[one.holds]}: {one.expectation} (found {one.found})", indent="  ")
    ]


def _repeat(data: ReportData) -> list[str]:
    return [f"Repeat it with: {shlex.join(data.argv)}"] if data.argv else []
