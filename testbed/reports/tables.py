"""The parts of a report that every format for people has: tables of words, and the remarks beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten

from testbed.analysis.metric_key import DeviceMetric, Side, packet_size
from testbed.analysis.metrics import BITS, COMPARED, METRICS, NAMED
from testbed.analysis.report import ComparisonData, MetricSummary, ReportData, Summaries, main_sizes
from testbed.reports.advice_text import adjusted_words, advice_words
from testbed.reports.figures_text import effect, in_gbit, p_value, short, spread, with_interval
from testbed.stats.compare import least_pairs

# Where no difference is shown in one of these, the text says what would decide it.
ADVISED = (BITS, "cpu_s_per_gb")
CORE_FIELDS = ("user", "system", "idle", "iowait", "irq", "softirq")
STATE_ROWS: Sequence[tuple[str, Sequence[str]]] = (
    ("TCP rtt/rttvar us", ("tcp.rtt_us", "tcp.rttvar_us")),
    ("TCP snd_cwnd/snd_wnd/snd_mss", ("tcp.snd_cwnd", "tcp.snd_wnd", "tcp.snd_mss")),
    ("TCP limited by rwnd/sndbuf, % of busy time", ("tcp.rwnd_limited", "tcp.sndbuf_limited")),
    ("net CPU usr/sys/idle/iow/irq/sirq", [f"cpu.net.{field}" for field in CORE_FIELDS]),
    ("app CPU usr/sys/idle/iow/irq/sirq", [f"cpu.app.{field}" for field in CORE_FIELDS]),
)
# In percent: of the time, of all CPU time, of one core.
NOISE = {
    "noise.cpu_pressure": "CPU pressure",
    "noise.steal": "steal",
    "noise.foreign": "other processes",
}


@dataclass(frozen=True)
class Table:
    """A heading, the names of the columns, and rows of words. Columns from `right` on hold numbers."""

    heading: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: int | None = None


def notes(data: ReportData) -> list[str]:
    """What a reader must know before the figures, a sentence each."""
    lines = [f"Note: {problem}." for problem in data.problems]
    skipped: dict[str, list[str]] = {}
    for state, reason in data.skipped.items():
        skipped.setdefault(reason, []).append(state)
    lines += [f"Skipped: {', '.join(states)}: {reason}" for reason, states in skipped.items()]
    if data.invalid:
        count = len(data.invalid)
        shown = "; ".join(
            f"round {one.round}, {one.state}: {shorten(one.reason, 160, placeholder='...')}"
            for one in data.invalid[:5]
        )
        more = f"; and {count - 5} more" if count > 5 else ""
        does = "round does" if count == 1 else "rounds do"
        lines.append(f"{count} invalid {does} not count: {shown}{more}")
    return lines


def state_title(data: ReportData, state: str) -> str:
    """`84 rounds, big-tcp: mtu=1500 gso_max_size=524280`."""
    count = data.rounds[state].valid
    rounds = "1 round" if count == 1 else f"{count} rounds"
    header = data.headers.get(state, "")
    return f"{rounds}, {state}: {header}" if header else f"{rounds}, {state}"


def states_table(data: ReportData) -> Table | None:
    """One row for each state: bitrate and what stands beside it, what is judged with its interval."""
    if not any(BITS in summaries for summaries in data.states.values()):
        return None
    titled = [metric.name for metric in METRICS if metric.title and metric.name != BITS]
    beside = [name for name in titled if any(name in held for held in data.states.values())]
    rows = [
        [
            state,
            str(data.rounds[state].valid),
            in_gbit(summaries[BITS]).split(" ±")[0] if BITS in summaries else "",
            *(_beside(name, summaries[name]) if name in summaries else "" for name in beside),
        ]
        for state, summaries in data.states.items()
    ]
    titles = [NAMED[name].title + " [95% CI]" * NAMED[name].interval for name in beside]
    return Table("States", ["state", "rounds", "Gbit/s [95% CI]", *titles], rows, right=3)


def _beside(name: str, summary: MetricSummary) -> str:
    return with_interval(summary) if NAMED[name].interval else short(summary.mean)


def title_of(metric: str | DeviceMetric) -> str:
    """What tables and figures call a metric."""
    return NAMED[metric].title if metric in NAMED else str(metric)


def comparison_tables(data: ReportData) -> Iterator[Table]:
    """A table for each compared pair of states, a row for each metric of COMPARED that the run has."""
    shown = compared(data)
    for a, b in dict.fromkeys((one.a, one.b) for one in shown):
        ours = [one for one in shown if (one.a, one.b) == (a, b)]
        yield Table(
            f"a = {a}, b = {b}, {ours[0].pairs} pairs",
            ["metric", "b/a [95% CI]", "p", "verdict"],
            [[title_of(one.metric), effect(one), p_value(one.p_holm), one.verdict] for one in ours],
        )


def remarks(data: ReportData) -> list[str]:
    """What the comparisons' tables cannot say: how many rounds are missing, p's adjustment, drift."""
    bitrates = [one for one in compared(data) if one.metric == BITS]
    lines = []
    if any(one.verdict == "too few rounds" for one in bitrates):
        needed = least_pairs(len(bitrates))
        lines.append(f"Too few rounds: {len(bitrates)} comparison(s) need at least {needed} pairs each.")
    for one in compared(data):
        if one.adjusted and one.metric in ADVISED:
            lines.append(adjusted_words(one, one.adjusted, title_of(one.metric)))
    undecided = [one for one in compared(data) if one.verdict == "no difference shown"]
    for one in undecided:
        if one.metric in ADVISED:
            lines += advice_words(one, title_of(one.metric))
    if len(bitrates) > 1:
        lines.append(f"p is adjusted for {len(bitrates)} comparisons (Holm).")
    lines += data.across_kernels
    for one in bitrates:
        if one.drift and one.drift.p < 0.05:
            lines.append(
                f"The bitrate drifted by {one.drift.change:+.1%} over the run ({one.a}, {one.b}; "
                f"p {p_value(one.drift.p)}); pairs within blocks are not biased by it."
            )
    return lines


def compared(data: ReportData) -> list[ComparisonData]:
    """The comparisons that the tables show; a figure that is 0 in every round of both states is left out."""
    return [
        one
        for one in data.comparisons
        if one.metric in COMPARED and (one.effect is not None or one.p_sign_flip != 1)
    ]


def size_rows(data: ReportData, state: str) -> Iterator[tuple[str, str]]:
    """(`server:veth0 rx 862`, its packets) for each main size, then what the others of its side carry."""
    summaries = data.states[state]
    main = main_sizes(summaries)
    for side in _sides_once(main):
        shown = [key for key in main if (size := packet_size(key)) and size.side == side]
        for name in shown:
            yield str(name), f"{spread(summaries[name])}{_seen(summaries[name])}"
        if count := data.distinct_sizes[state][str(side)] - len(shown):
            rest = 1 - sum(main[name][1] for name in shown)
            yield f"{side}, {count} more size{'s' if count > 1 else ''}", f"{max(0.0, rest):.2%} of the bytes"


def unseen_row(data: ReportData, state: str) -> Iterator[tuple[str, str]]:
    """(what, how much of it) of a state with packets that the collector did not see."""
    if unseen := data.sureness[state].unseen:
        rounds = f"in {unseen.rounds} of {data.rounds[state].valid} rounds"
        yield "packets not seen", f"{rounds}, at most {_percent(unseen.share)} of {unseen.side}"


def sureness_line(data: ReportData) -> str:
    """What the figures of all states were held against in a sentence, "" where some do not agree."""
    held = list(data.sureness.values())
    if not held or not all(one.agrees for one in held):
        return ""
    words = [
        f"all {sum(one.valid for one in held)} rounds valid",
        "no packets unseen, no clock steps",
    ]
    for what, ratio in (
        ("tool / devices", _largest(one.tool_over_devices for one in held)),
        ("sockets / tool", _largest(one.sockets_over_tool for one in held)),
    ):
        words += [f"bytes {what} at most {ratio:.1%}"] if ratio is not None else []
    if cpu := [one.cpu_accounted for one in held if one.cpu_accounted]:
        least = min(one.least for one in cpu)
        words.append(f"at least {least:.0f}% of the cores' time accounted for")
    return f"Checks: {'; '.join(words)}."


def sureness_table(data: ReportData) -> Table | None:
    """The same a state a row; None where all agree, and a line is enough."""
    if not data.sureness or sureness_line(data):
        return None
    rows = [
        [
            state,
            str(one.valid),
            str(sum(one.run_again.values())),
            f"{_percent(one.unseen.share)} ({one.unseen.rounds})" if one.unseen else "0",
            str(one.clock_steps),
            "" if one.tool_over_devices is None else f"{one.tool_over_devices:.1%}",
            "" if one.sockets_over_tool is None else f"{one.sockets_over_tool:.1%}",
            f"{one.cpu_accounted.least:.0f} to {one.cpu_accounted.most:.0f}%" if one.cpu_accounted else "",
        ]
        for state, one in data.sureness.items()
    ]
    header = ["state", "valid", "run again", "most unseen (rounds)", "clock steps"]
    header += ["tool/devices", "sockets/tool", "CPU accounted"]
    heading = "Checks: rounds that count and do not, and the largest difference of any round that counts"
    return Table(heading, header, rows, right=1)


def run_again_lines(data: ReportData) -> list[str]:
    """Why rounds were run again, state by state."""
    return [
        f"Run again, {state}: {', '.join(f'{why} ({count})' for why, count in one.run_again.items())}."
        for state, one in data.sureness.items()
        if one.run_again
    ]


def _percent(share: float) -> str:
    """`0.0015%`: two digits, however small."""
    return f"{share * 100:.2g}%"


def _largest(values: Iterable[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)


def boots_row(data: ReportData, state: str) -> Iterator[tuple[str, str]]:
    """(what, how the throughput varied) of a state that ran on booted kernels."""
    one = data.boots.get(state)
    if one is None:
        return
    parts = [("sd between boots", one.sd_between), ("within", one.sd_within)]
    words = ", ".join(f"{name} {sd * 1e-9:.2f} Gbit/s" for name, sd in parts if sd is not None)
    yield f"{one.boots} boot{'' if one.boots == 1 else 's'}", words or "one round, no spread"


def state_rows(summaries: Summaries) -> Iterator[tuple[str, str]]:
    """(what, means) of the state's flow, its cores as kperf prints them, and what may have disturbed it."""
    rows: dict[str, list[str]] = {}  # net and app CPU are the same where the cores are
    for title, names in STATE_ROWS:
        held = [summaries[name].mean for name in names if name in summaries]
        if len(held) == len(names):
            rows.setdefault("/".join(short(round(mean, 2)) for mean in held), []).append(title)
    for means, titles in rows.items():
        who = [title.partition(" ")[0] for title in titles]
        yield f"{', '.join(who)} {titles[0].partition(' ')[2]}", means
    for key in summaries:
        if isinstance(key, DeviceMetric) and key.what == "queue_mean":
            most, drops = (summaries[key._replace(what=what)] for what in ("queue_max", "queue_drops"))
            if most.max:
                words = f"{short(summaries[key].mean)}/{short(most.max)}/{short(drops.mean)}"
                yield f"{key.reference} queue mean/most bytes, drops a round", words
    noise = [f"{word} {summaries[name].mean:.1f}%" for name, word in NOISE.items() if name in summaries]
    if noise:
        yield "noise", ", ".join(noise)
    if "cpu_s.testbed" in summaries:
        yield "testbed itself, CPU s a round", f"{summaries['cpu_s.testbed'].mean:.3f}"


def profile_tables(data: ReportData) -> Iterator[Table]:
    """For each compared pair with a profile, the functions whose share of the CPU time differs most."""
    for one in data.profiles:
        rows = [
            [held.function, f"{held.a:.2f}", f"{held.b:.2f}", f"{held.b - held.a:+.2f}"]
            for held in one.functions
        ]
        heading = f"Functions whose CPU time differs most, % (a = {one.a}, b = {one.b})"
        yield Table(heading, ["function", "a", "b", "b-a"], rows, right=1)


def rule_line(data: ReportData) -> str:
    """One sentence on sides where sizes and counters are compared by a rule, "" without any."""
    places: dict[str, list[str]] = {}
    for rule in data.rules:
        place, _, words = rule.partition(": ")
        places.setdefault(words, []).append(place)
    told = "; ".join(f"{words} ({', '.join(held)})" for words, held in places.items())
    return f"Packet sizes against the counters: {told}." if told else ""


def shown_sides(summaries: Summaries) -> list[Side]:
    """The rx side of every device; a tx side only where no rx side shows the same sizes.

    On a veth pair what one end sends is what the other receives: saying it once is enough.
    """
    return _sides_once(main_sizes(summaries))


def _sides_once(main: Iterable[DeviceMetric]) -> list[Side]:
    sides: dict[Side, set[int]] = {}
    for side, size in filter(None, map(packet_size, main)):
        sides.setdefault(side, set()).add(size)
    received = [sizes for side, sizes in sides.items() if side.direction == "rx"]
    return [side for side, sizes in sides.items() if side.direction == "rx" or sizes not in received]


def explanations(data: ReportData) -> list[tuple[int, str]]:
    """(size, its arithmetic) of the main sizes of all states, each once."""
    found: dict[tuple[int, str], None] = {}
    for summaries in data.states.values():
        for name in main_sizes(summaries):
            words = summaries[name].explained
            if words and name.size is not None:
                found[(name.size, words)] = None
    return sorted(found)


def explanations_by_headers(data: ReportData) -> list[str]:
    """The same, a line for each set of headers: `+ 86 (14 Ethernet, ...): 862 = ...; 1514 = ...`."""
    groups: dict[str, list[str]] = {}
    for size, words in explanations(data):
        payload, plus, headers = words.rpartition(" + ")
        if not plus:  # a pure ACK is all headers
            payload, _, headers = words.partition(": ")
        groups.setdefault(headers, []).append(f"{size} = {payload}")
    return [f"With headers of {headers}: {'; '.join(sizes)}." for headers, sizes in groups.items()]


def expectation_lines(data: ReportData) -> list[str]:
    """Each expectation with what was found, those that are not met first."""
    words = {True: "met", False: "NOT MET", None: "NOT SHOWN"}
    ordered = sorted(data.expectations, key=lambda one: one.holds is True)
    return [f"{words[one.holds]}: {one.expectation} (found {one.found})" for one in ordered]


def _seen(summary: MetricSummary) -> str:
    if summary.rounds_seen in (None, summary.n):
        return ""
    return f", in {summary.rounds_seen} of {summary.n} rounds"
