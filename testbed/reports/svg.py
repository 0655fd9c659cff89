"""A little SVG: axes with round ticks, marks, and text, as strings. Colours come from the page's CSS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` onto pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values within the scale, about `count` of them."""
        step = _round_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


def scale(values: Sequence[float], start: float, end: float, *, zero: bool = False) -> Scale:
    """A scale that holds all `values` with a margin; from 0 when `zero`."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
    return Scale(0.0 if zero else low - margin, high + margin, start, end)


def figure(title: str, text: str, height: float, *parts: str) -> str:
    """An SVG image that a screen reader reads as `title` and `text`."""
    body = "".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}. {escape(text)}">'
        f"<title>{escape(title)}</title><desc>{escape(text)}</desc>{body}</svg>"
    )


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def rect(x: float, y: float, width: float, height: float, css: str, tip: str = "") -> str:
    attributes = f'class="{css}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
    return f"<rect {attributes}>{_tip(tip)}</rect>"


def words(x: float, y: float, text: str, css: str = "", anchor: str = "start") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def mark(x: float, y: float, kind: int, css: str, tip: str = "") -> str:
    """One of four shapes, so that states can be told apart without their colours."""
    shapes = (
        f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
        f"M{x - 3.6:.1f} {y - 3.6:.1f}h7.2v7.2h-7.2Z",
        f"M{x:.1f} {y - 4.6:.1f}l4.6 8.4h-9.2Z",
        f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5Z",
    )
    return f'<path class="{css}" d="{shapes[kind % len(shapes)]}">{_tip(tip)}</path>'


def cross(x: float, y: float, css: str, tip: str = "") -> str:
    path = f"M{x - 4:.1f} {y - 4:.1f}l8 8M{x + 4:.1f} {y - 4:.1f}l-8 8"
    return f'<path class="{css}" d="{path}">{_tip(tip)}</path>'


def x_axis(axis: Scale, top: float, bottom: float, title: str) -> str:
    parts = [line(axis(tick), top, axis(tick), bottom, "grid") for tick in axis.ticks()]
    parts += [words(axis(tick), bottom + 16, f"{tick:g}", "tick", "middle") for tick in axis.ticks()]
    return "".join([*parts, words(axis.end, bottom + 32, title, "tick", "end")])


def y_axis(axis: Scale, left: float, right: float, title: str) -> str:
    parts = [line(left, axis(tick), right, axis(tick), "grid") for tick in axis.ticks()]
    parts += [words(left - 6, axis(tick) + 4, f"{tick:g}", "tick", "end") for tick in axis.ticks()]
    return "".join([*parts, words(left, min(axis.start, axis.end) - 8, title, "tick")])


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
