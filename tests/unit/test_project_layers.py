"""Imports go downwards only: a room of the package imports from the rooms below it, never from one above."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "testbed"

# From the bottom up. Rooms on one line know nothing of each other. docs/decisions.md says why this order.
LAYERS = (
    (
        "__version__",
        "errors",
        "clocks",
        "slowness",
        "outcome",
        "units",
        "unfinished",
        "headers",
        "versions",
        "text_columns",
    ),
    ("yamlvalues",),
    ("privilege", "yamlfile", "capabilities", "unit_fields", "available"),
    ("netlink", "records", "stats", "kernel_facts"),
    ("devices", "kernels"),
    ("nodes",),
    ("topology",),
    ("lab",),
    ("workloads", "evidence"),
    ("probing", "path", "guests"),
    ("analysis",),
    ("experiments",),
    ("running", "reports"),
    ("library",),
    ("cli", "testing"),
    ("__main__",),
)
LEVEL = {room: level for level, layer in enumerate(LAYERS) for room in layer}


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of what a file imports of this package, inside functions and for types too."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: a relative import: write it out"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == PACKAGE.name:
                yield node.lineno, rest.partition(".")[0]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_room_has_its_layer():
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__"}
    assert rooms == LEVEL.keys() - {"__version__"}


def test_imports_go_downwards_only():
    upwards = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {room_of(path)} imports {room}, which is not below it"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent != PACKAGE or path.name != "__init__.py"
        for line, room in imported(path)
        if room != room_of(path) and LEVEL[room] >= LEVEL[room_of(path)]
    ]
    assert upwards == []


def test_an_import_upwards_is_seen_inside_a_function(tmp_path):
    """The contract itself must be able to fail."""
    file = tmp_path / "plan.py"
    file.write_text("import os\n\ndef late():\n    from testbed.lab.lab import Lab\n    return Lab\n")
    assert list(imported(file)) == [(4, "lab")]
