"""The figures of the HTML report. Each is an SVG string with its title and what it shows in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.reports import svg
from testbed.reports.data import MAIN_SHARE, ComparisonData, Report, ReportData, size_shares
from testbed.reports.metrics import size_of
from testbed.reports.tables import TITLES, compared, shown_sides
from testbed.reports.words import effect, in_gbit

GBIT = 1e-9
LEFT, RIGHT = 64, svg.WIDTH - 16
MOST_POINTS = 2000
CPU_KINDS = ("user", "system", "softirq", "irq", "steal", "iowait", "idle")


@dataclass(frozen=True)
class Figure:
    """A title, the image, and a caption in words that says the same."""

    title: str
    image: str
    caption: str


def figures(report: Report) -> list[Figure]:
    """What a person looks at first, in that order. A figure without data is left out."""
    makers = (effects, over_time, distribution, packet_sizes, cpu_split)
    return [figure for maker in makers for figure in maker(report)]


def css(index: int) -> str:
    """The colour class of a state."""
    return f"s{index % 8}"


def effects(report: Report) -> Iterator[Figure]:
    """Each effect with its interval, against no effect at all."""
    rows = [one for one in compared(report.data) if one.ci95]
    if not rows:
        return
    names = [f"{one.b} / {one.a}: {TITLES[one.metric]}" for one in rows]
    ends = [end for one in rows for end in one.ci95 or ()]
    bottom = 20 + 26 * len(rows)
    x = svg.scale([*ends, 1.0], _room(names), RIGHT)
    parts = [svg.x_axis(x, 10, bottom, "ratio b/a"), svg.line(x(1), 10, x(1), bottom, "one")]
    for index, one in enumerate(rows):
        y = 26 + 26 * index
        low, high = one.ci95 or (1.0, 1.0)
        parts += [
            svg.words(4, y + 4, names[index]),
            svg.line(x(low), y, x(high), y, "interval"),
            svg.mark(x(one.effect or 1.0), y, 3, "effect", f"{effect(one)}, {one.verdict}"),
        ]
    caption = "; ".join(_effect_words(one) for one in rows)
    yield Figure(
        "Effects with their 95% intervals", svg.figure("Effects", caption, bottom + 40, *parts), caption
    )


def over_time(report: Report) -> Iterator[Figure]:
    """Throughput of each round in order of execution; invalid rounds are crosses at the bottom."""
    series = {name: held.series("bits_per_second") for name, held in report.gathered.states.items()}
    points = [
        (number, value * GBIT, index, name)
        for index, (name, one) in enumerate(series.items())
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
    bad = f" {len(invalid)} invalid rounds are marked with a cross." if invalid else ""
    caption = f"{len(points)} valid rounds in order of execution.{bad}{thinned}{_drift_words(report.data)}"
    yield Figure("Throughput of each round", svg.figure("Throughput", caption, 300, *parts), caption)


def distribution(report: Report) -> Iterator[Figure]:
    """Every round's throughput by state, with mean and interval."""
    shown = [name for name, held in report.data.states.items() if "bits_per_second" in held]
    if not shown:
        return
    values = {name: report.gathered.states[name].series("bits_per_second").values for name in shown}
    x = svg.scale([value * GBIT for held in values.values() for value in held], _room(shown), RIGHT)
    bottom = 16 + 40 * len(shown)
    parts = [svg.x_axis(x, 10, bottom, "Gbit/s")]
    for index, name in enumerate(report.data.states):
        if name not in values:
            continue
        y = 36 + 40 * index
        summary = report.data.states[name]["bits_per_second"]
        every = -(-len(values[name]) // 300)
        parts.append(svg.words(4, y + 4, name))
        parts += [
            svg.mark(x(value * GBIT), y - 7 + 4 * (number % 4), index, f"{css(index)} dot")
            for number, value in enumerate(values[name][::every])
        ]
        if summary.ci95:
            parts.append(
                svg.line(x(summary.ci95[0] * GBIT), y + 12, x(summary.ci95[1] * GBIT), y + 12, "interval")
            )
        parts.append(
            svg.mark(x(summary.mean * GBIT), y + 12, 3, "effect", f"{name}: {in_gbit(summary)} Gbit/s")
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
        told = (
            f"{name}: "
            + ", ".join(
                f"{size} {_share_words(*share)}" for size, share in sorted(held.items()) if size in main
            )
            for name, held in shares.items()
            if held
        )
        caption = "; ".join(told)
        title = f"Packet sizes at {side}"
        yield Figure(title, svg.figure(title, caption, bottom + 40, *parts), caption)


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
    bottom = 34 + 24 * len(rows)
    parts = [svg.x_axis(x, 30, bottom, "% of the cores' time")]
    for index, kind in enumerate(CPU_KINDS):
        parts += [
            svg.rect(left + 70 * index, 4, 10, 10, f"k{index}"),
            svg.words(left + 70 * index + 14, 13, kind, "tick"),
        ]
    for row, (name, split) in enumerate(rows):
        y, done = 36 + 24 * row, 0.0
        parts.append(svg.words(4, y + 13, name))
        for index, (kind, percent) in enumerate(split.items()):
            parts.append(svg.rect(x(done), y, x(percent) - x(0), 16, f"k{index}", f"{kind} {percent:.1f}%"))
            done += percent
    told = (
        f"{name}: "
        + ", ".join(f"{kind} {percent:.1f}%" for kind, percent in split.items() if percent >= 0.05)
        for name, split in rows
    )
    caption = "; ".join(told)
    yield Figure("CPU", svg.figure("CPU", caption, bottom + 40, *parts), caption)


def _share_words(packets: float, length: float) -> str:
    return f"{packets:.1%} of the packets, {length:.1%} of the bytes"


def _shares(data: ReportData, state: str, side: str) -> dict[int, tuple[float, float]]:
    """Size -> shares of the packets and of the bytes, of every size of a side."""
    found = {}
    for name, share in size_shares(data.states[state]).items():
        place, direction, size = size_of(name) or ("", "", 0)
        if f"{place} {direction}" == side:
            found[size] = share
    return found


def _room(names: Sequence[str]) -> float:
    """Where bars begin, so that the longest name fits left of them (12 px type, 6.7 px a letter)."""
    return min(svg.WIDTH / 2, 16 + 6.7 * max(len(name) for name in names))


def _effect_words(one: ComparisonData) -> str:
    return f"{one.b} / {one.a}, {TITLES[one.metric]}: {effect(one)}, {one.verdict}"


def _drift_words(data: ReportData) -> str:
    drifting = [one for one in data.comparisons if one.metric == "bits_per_second" and one.drift]
    if not drifting or drifting[0].drift is None:
        return ""
    found = drifting[0].drift
    return f" Drift over the run: {found.change:+.1%} (p {found.p:.3f})."
