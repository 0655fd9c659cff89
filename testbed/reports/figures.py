"""The figures of the HTML report. Each is an SVG string with its title and what it shows in words.

Of many states (brief.py) each has one narrow row, and the colours are those of the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from testbed.analysis.metric_key import Side, packet_size
from testbed.analysis.report import MAIN_SHARE, ComparisonData, Report, ReportData, size_shares
from testbed.reports import svg
from testbed.reports.figures_text import effect, in_gbit
from testbed.reports.many_states import bitrates, is_long, pair_names
from testbed.reports.tables import compared, shown_sides, title_of

GBIT = 1e-9
LEFT, RIGHT = 64, svg.WIDTH - 16
MOST_POINTS = 2000
MOST_REACH = 3  # of an interval beyond the effects, as a factor
FLOW_FIGURES = (
    ("snd_cwnd", "TCP congestion window over time", "segments"),
    ("rtt_us", "TCP round-trip time over time", "us"),
)
CPU_KINDS = ("user", "system", "softirq", "irq", "steal", "iowait", "idle")


@dataclass(frozen=True)
class Figure:
    """A title, the image, and a caption in words that says the same."""

    title: str
    image: str
    caption: str


def figures(report: Report) -> list[Figure]:
    """What a person looks at first, in that order. A figure without data is left out."""
    sizes = size_strips if is_long(report.data) else packet_sizes
    makers = (effects, over_time, distribution, sizes, tcp_over_time, cpu_split)
    return [figure for maker in makers for figure in maker(report)]


def css(index: int) -> str:
    """The colour class of a state."""
    return f"s{index % 8}"


def kinds(report: Report) -> dict[str, int]:
    """State -> number of its colour and mark: its own, or of many states that of its kernel."""
    states = list(report.data.states)
    if not is_long(report.data):
        return {name: index for index, name in enumerate(states)}
    kernels = list(report.run.kernels)
    return {name: kernels.index(report.columns.states[name].kernel) for name in states}


def effects(report: Report) -> Iterator[Figure]:
    """Each effect with its interval, against no effect at all."""
    many = is_long(report.data)
    shown = bitrates(report.data) if many else compared(report.data)
    rows = [one for one in shown if one.ci95]
    if not rows:
        return
    heading, names = pair_names(report.data, rows)
    if not many:
        heading, names = "", [f"{one.b} / {one.a}: {title_of(one.metric)}" for one in rows]
    # Of a few rounds an interval can reach a hundred times as far as any effect: it ends with the figure.
    points = [1.0, *(one.effect or 1.0 for one in rows)]
    least, most = min(points) / MOST_REACH, max(points) * MOST_REACH
    intervals = [[min(max(end, least), most) for end in one.ci95 or (1.0, 1.0)] for one in rows]
    bottom = 20 + 26 * len(rows)
    x = svg.scale([*points, *chain(*intervals)], _room(names), RIGHT)
    parts = [svg.x_axis(x, 10, bottom, "ratio b/a"), svg.line(x(1), 10, x(1), bottom, "one")]
    for index, one in enumerate(rows):
        y = 26 + 26 * index
        low, high = intervals[index]
        parts += [
            svg.words(4, y + 4, names[index]),
            svg.line(x(low), y, x(high), y, "interval"),
            svg.mark(x(one.effect or 1.0), y, 3, "effect", f"{effect(one)}, {one.verdict}"),
        ]
    caption = "; ".join(_effect_words(one) for one in rows)
    title = f"Effects on the bitrate, {heading}, with their" if many else "Effects with their"
    yield Figure(f"{title} 95% intervals", svg.figure("Effects", caption, bottom + 40, *parts), caption)


def over_time(report: Report) -> Iterator[Figure]:
    """Throughput of each round in order of execution; invalid rounds are crosses at the bottom."""
    kind = kinds(report)
    series = {name: held.series("bits_per_second") for name, held in report.columns.states.items()}
    points = [
        (number, value * GBIT, kind[name], name)
        for name, one in series.items()
        for number, value in zip(one.rounds, one.values, strict=True)
    ]
    if not points:
        return
    every = -(-len(points) // MOST_POINTS)
    invalid = report.data.invalid
    x = svg.scale([0, *(point[0] for point in points), *(one.round for one in invalid)], LEFT, RIGHT)
    y = svg.scale([point[1] for point in points], 260, 30)
    parts = [svg.x_axis(x, 30, 260, "round"), svg.y_axis(y, LEFT, RIGHT, "Gbit/s")]
    parts += [
        svg.mark(x(number), y(value), index, css(index), f"round {number}, {name}: {value:.2f} Gbit/s")
        for number, value, index, name in points[::every]
    ]
    parts += [
        svg.cross(x(one.round), 252, "invalid", f"round {one.round}, {one.state}: {one.reason}")
        for one in invalid[:MOST_POINTS]
    ]
    thinned = f" One in {every} rounds is drawn." if every > 1 else ""
    bad = f" {len(invalid)} invalid, marked with a cross." if invalid else ""
    caption = f"{len(points)} valid rounds in order of execution.{bad}{thinned}{_drift_words(report.data)}"
    yield Figure("Throughput of each round", svg.figure("Throughput", caption, 300, *parts), caption)


def distribution(report: Report) -> Iterator[Figure]:
    """Every round's throughput by state, with mean and interval."""
    shown = [name for name, held in report.data.states.items() if "bits_per_second" in held]
    if not shown:
        return
    values = {name: report.columns.states[name].series("bits_per_second").values for name in shown}
    x = svg.scale([value * GBIT for held in values.values() for value in held], _room(shown), RIGHT)
    pitch, kind = 24 if is_long(report.data) else 40, kinds(report)
    bottom = 16 + pitch * len(shown)
    parts = [svg.x_axis(x, 10, bottom, "Gbit/s")]
    for row, name in enumerate(shown):
        y, index = 10 + pitch / 2 + pitch * row, kind[name]
        summary = report.data.states[name]["bits_per_second"]
        every, below = -(-len(values[name]) // 300), y + pitch / 3
        parts.append(svg.words(4, y + 4, name))
        parts += [
            svg.mark(x(value * GBIT), y + pitch / 8 * (number % 4 - 2), index, f"{css(index)} dot")
            for number, value in enumerate(values[name][::every])
        ]
        if summary.ci95:
            # Of a few rounds an interval can be far wider than their spread: it ends with the figure.
            low, high = (min(max(end * GBIT, x.low), x.high) for end in summary.ci95)
            parts.append(svg.line(x(low), below, x(high), below, "interval"))
        parts.append(
            svg.mark(x(summary.mean * GBIT), below, 3, "effect", f"{name}: {in_gbit(summary)} Gbit/s")
        )
    found = (f"{name}: {in_gbit(report.data.states[name]['bits_per_second'])} Gbit/s" for name in shown)
    caption = "; ".join(found)
    yield Figure("Throughput by state", svg.figure("By state", caption, bottom + 40, *parts), caption)


def packet_sizes(report: Report) -> Iterator[Figure]:
    """For each hop with more than one size, the share of the packets in each main size, state by state."""
    data = report.data
    sides = dict.fromkeys(side for held in data.states.values() for side in shown_sides(held))
    for side in sides:
        shares = {name: _shares(data, name, side) for name in data.states}
        main = {size for held in shares.values() for size, share in held.items() if max(share) >= MAIN_SHARE}
        sizes = sorted(main)
        if len(sizes) < 2:
            continue
        x = svg.Scale(0, 100, 100, RIGHT - 60)
        group = 8 + 14 * len(shares)
        bottom = 12 + group * len(sizes)
        parts = [svg.x_axis(x, 8, bottom, "% of the packets")]
        for row, size in enumerate(sizes):
            top = 12 + group * row
            parts.append(svg.words(92, top + group / 2, str(size), anchor="end"))
            for index, (name, held) in enumerate(shares.items()):
                packets, length = held.get(size, (0.0, 0.0))
                share = packets * 100
                tip = f"{name}: {size} bytes, {share:.1f}% of the packets, {length:.1%} of the bytes"
                parts.append(svg.rect(x(0), top + 14 * index, x(share) - x(0), 11, css(index), tip))
                parts.append(svg.words(x(share) + 4, top + 14 * index + 10, f"{share:.1f}", "small"))
        texts = (
            f"{name}: "
            + ", ".join(
                f"{size} {_share_words(*share)}" for size, share in sorted(held.items()) if size in main
            )
            for name, held in shares.items()
            if held
        )
        caption = "; ".join(texts)
        title = f"Packet sizes at {side}"
        yield Figure(title, svg.figure(title, caption, bottom + 40, *parts), caption)


def size_strips(report: Report) -> Iterator[Figure]:
    """The same of many states: a row for each, a bar at each main size, as high as its share of the bytes."""
    data, kind, pitch = report.data, kinds(report), 18
    for side in dict.fromkeys(side for held in data.states.values() for side in shown_sides(held)):
        shares = {name: held for name in data.states if (held := _shares(data, name, side))}
        largest = max(size for held in shares.values() for size in held)
        x = svg.Scale(0, largest * 1.02, _room(list(shares)), RIGHT)
        bottom = 12 + pitch * len(shares)
        parts = [svg.x_axis(x, 8, bottom, "bytes; a bar is as high as the size's share of the bytes")]
        for row, (name, held) in enumerate(shares.items()):
            foot = 8 + pitch * (row + 1)
            parts += [svg.words(4, foot - 3, name), svg.line(x(0), foot, RIGHT, foot, "grid")]
            for size, (packets, length) in held.items():
                high = max(1.0, (pitch - 3) * length)
                tip = f"{name}: {size} bytes, {_share_words(packets, length)}"
                parts.append(svg.rect(x(size) - 1.5, foot - high, 3, high, css(kind[name]), tip))
        texts = (f"{name}: {_largest_share(held)}" for name, held in shares.items())
        caption = f"Most of the bytes: {'; '.join(texts)}"
        title = f"Packet sizes at {side}"
        yield Figure(title, svg.figure(title, caption, bottom + 40, *parts), caption)


def tcp_over_time(report: Report) -> Iterator[Figure]:
    """The flow's congestion window and round-trip time over the measured seconds, mean of the rounds."""
    if is_long(report.data):
        return
    kind = kinds(report)
    for name, title, unit in FLOW_FIGURES:
        lines = {
            state: points
            for state, held in report.columns.states.items()
            if len(points := held.flow.means(name)) > 1
        }
        if not lines:
            continue
        x = svg.scale([at for points in lines.values() for at, _ in points], LEFT, RIGHT, zero=True)
        y = svg.scale([value for points in lines.values() for _, value in points], 230, 30)
        parts = [svg.x_axis(x, 30, 230, "seconds of the measured ones"), svg.y_axis(y, LEFT, RIGHT, unit)]
        for state, points in lines.items():
            index = kind[state]
            for (at, value), (after, other) in pairwise(points):
                parts.append(svg.line(x(at), y(value), x(after), y(other), "flow " + css(index)))
            parts += [
                svg.mark(x(at), y(value), index, css(index), f"{state}, {at:g} s: {value:.4g} {unit}")
                for at, value in points
            ]
        told = (
            f"{state}: {points[0][1]:.4g} {unit} at first, {points[-1][1]:.4g} at the end, "
            f"{max(value for _, value in points):.4g} at most"
            for state, points in lines.items()
        )
        caption = f"Mean of the rounds of each state. {'; '.join(told)}"
        yield Figure(title, svg.figure(title, caption, 270, *parts), caption)


def cpu_split(report: Report) -> Iterator[Figure]:
    """What the workload's and the network's cores did, in percent of the measured seconds."""
    rows = [
        (f"{name}, {cores}", {kind: held[f"cpu.{cores}.{kind}"].mean for kind in CPU_KINDS})
        for name, held in report.data.states.items()
        for cores in ("app", "net")
        if all(f"cpu.{cores}.{kind}" in held for kind in CPU_KINDS)
    ]
    if not rows:
        return
    left = _room([name for name, _ in rows])
    x = svg.Scale(0, 100, left, RIGHT)
    pitch = 17 if is_long(report.data) else 24
    bottom = 34 + pitch * len(rows)
    parts = [svg.x_axis(x, 30, bottom, "% of the cores' time")]
    for index, kind in enumerate(CPU_KINDS):
        parts += [
            svg.rect(left + 70 * index, 4, 10, 10, f"k{index}"),
            svg.words(left + 70 * index + 14, 13, kind, "tick"),
        ]
    for row, (name, split) in enumerate(rows):
        y, done = 36 + pitch * row, 0.0
        parts.append(svg.words(4, y + pitch / 2 + 1, name))
        for index, (kind, percent) in enumerate(split.items()):
            parts.append(
                svg.rect(x(done), y, x(percent) - x(0), pitch * 2 / 3, f"k{index}", f"{kind} {percent:.1f}%")
            )
            done += percent
    texts = (
        f"{name}: "
        + ", ".join(f"{kind} {percent:.1f}%" for kind, percent in split.items() if percent >= 0.05)
        for name, split in rows
    )
    caption = "; ".join(texts)
    yield Figure("CPU", svg.figure("CPU", caption, bottom + 40, *parts), caption)


def _share_words(packets: float, length: float) -> str:
    return f"{packets:.1%} of the packets, {length:.1%} of the bytes"


def _largest_share(held: Mapping[int, tuple[float, float]]) -> str:
    size, (_, length) = max(held.items(), key=lambda one: one[1][1])
    return f"{size} ({length:.0%})"


def _shares(data: ReportData, state: str, side: Side) -> dict[int, tuple[float, float]]:
    """Size -> shares of the packets and of the bytes, of every size of a side."""
    found = {}
    for key, share in size_shares(data.states[state]).items():
        size = packet_size(key)
        if size and size.side == side:
            found[size.size] = share
    return found


def _room(names: Sequence[str]) -> float:
    """Where bars begin, so that the longest name fits left of them (12 px type, 6.7 px a letter)."""
    return min(svg.WIDTH / 2, 16 + 6.7 * max(len(name) for name in names))


def _effect_words(one: ComparisonData) -> str:
    return f"{one.b} / {one.a}, {title_of(one.metric)}: {effect(one)}, {one.verdict}"


def _drift_words(data: ReportData) -> str:
    drifting = [one for one in data.comparisons if one.metric == "bits_per_second" and one.drift]
    if not drifting or drifting[0].drift is None:
        return ""
    found = drifting[0].drift
    return f" Drift over the run: {found.change:+.1%} (p {found.p:.3f})."
