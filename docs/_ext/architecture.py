"""Directives that draw the import graph and write the table of rooms, from the code and its tested order.

Both read tests/unit/test_project_layers.py, whose tests hold the code to it: what is drawn is what is.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from docutils import nodes
from reference import Generated
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

sys.path.append(str(Path(__file__).parents[2] / "tests" / "unit"))
from test_project_layers import LAYERS, PACKAGE, imported, room_of

Graph = Mapping[str, set[str]]

WIDTH, ROW, BOX_WIDTH, BOX_HEIGHT = 720, 64, 104, 28


def imports() -> Graph:
    """Room -> the other rooms that its files import."""
    graph = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        room = room_of(path)
        if room != "__init__":
            graph[room] |= {other for _, other in imported(path) if other not in ("", room)}
    return graph


def without_detours(graph: Graph) -> Graph:
    """The same graph without arrows that a longer way through other rooms implies."""

    def reached(room: str) -> set[str]:
        return graph[room].union(*(reached(below) for below in graph[room]))

    return {
        room: below - set().union(*(reached(other) for other in below)) if below else set()
        for room, below in graph.items()
    }


def folders() -> set[str]:
    return {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}


def drawn() -> Iterator[str]:
    """The rooms that are folders, upper layers above, as one SVG."""
    rooms, graph = folders(), imports()
    shown = without_detours({room: graph[room] & rooms for room in rooms})
    rows = [[room for room in layer if room in rooms] for layer in reversed(LAYERS)]
    rows = [row for row in rows if row]
    # Each row a little to the side of its neighbours, so that no arrow runs behind a box on its way.
    place = {
        room: (WIDTH * (2 * column + 1) // (2 * len(row)) + 60 * (number % 3 - 1), ROW * number + ROW // 2)
        for number, row in enumerate(rows)
        for column, room in enumerate(row)
    }
    yield f'<svg viewBox="0 0 {WIDTH} {ROW * len(rows)}" role="img" aria-label="import graph"'
    yield ' style="max-width: 100%" font-size="13" text-anchor="middle" fill="currentColor" stroke="none">'
    for room in sorted(rooms):
        (x, y), half = place[room], BOX_HEIGHT // 2
        for below in sorted(shown[room]):
            to_x, to_y = place[below]
            # Leaves and arrives upright, so that an arrow is told from those beside it.
            top, bottom, middle = y + half, to_y - half, (y + to_y) // 2
            yield f'<path d="M{x} {top} C{x} {middle} {to_x} {middle} {to_x} {bottom}"'
            yield ' fill="none" stroke="currentColor" stroke-opacity="0.35"/>'
    for room, (x, y) in place.items():
        told = ", ".join(sorted(graph[room] & rooms)) or "none of these"
        yield f"<g><title>{escape(f'{room} imports {told}')}</title>"
        yield f'<rect x="{x - BOX_WIDTH // 2}" y="{y - BOX_HEIGHT // 2}" rx="4" stroke="currentColor"'
        yield f' width="{BOX_WIDTH}" height="{BOX_HEIGHT}" fill="var(--color-background-primary, white)"/>'
        yield f'<text x="{x}" y="{y + 5}">{escape(room)}</text></g>'
    yield "</svg>"


class ImportGraph(SphinxDirective):
    """The import graph, for builders that show HTML."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", "\n".join(drawn()), format="html")]


class Rooms(Generated):
    """A table of rooms from lines `room: what it holds`, and what each imports. It must tell every folder."""

    has_content = True
    optional_arguments = 0

    def lines(self) -> Iterator[str]:
        told = dict(line.split(": ", 1) for line in self.content)
        rooms, graph = folders(), imports()
        if told.keys() != rooms:
            raise self.error(f"told and not there, or there and not told: {sorted(told.keys() ^ rooms)}")
        yield from ("| room | holds | imports |", "| --- | --- | --- |")
        for room in (room for layer in reversed(LAYERS) for room in layer if room in told):
            yield f"| {room}/ | {told[room]} | {', '.join(sorted(graph[room] & rooms)) or 'none of these'} |"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("import-graph", ImportGraph)
    app.add_directive("rooms", Rooms)
    return {"parallel_read_safe": True}
