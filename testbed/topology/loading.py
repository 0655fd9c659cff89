"""Find and read topology files: shipped ones by name, others by path."""

from __future__ import annotations

from pathlib import Path

from testbed.errors import InputError
from testbed.topology.checks import check
from testbed.topology.spec import Topology
from testbed.yamlfile import Document, did_you_mean, load, parse, validate

_PACKAGE = Path(__file__).resolve().parents[1]
# The wheel carries the top-level topologies/ inside the package.
_SHIPPED = (_PACKAGE.parent / "topologies", _PACKAGE / "topologies")


def find_topology(name_or_path: str | Path, beside: Path = Path()) -> Path:
    """The file of a shipped topology, or the path itself, relative to `beside` (the folder of who names it).

    InputError, with the known names, for neither.
    """
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"} or len(path.parts) > 1:
        path = beside / path
        if not path.is_file():
            raise InputError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        return path
    found = shipped_topologies().get(str(name_or_path))
    if found is None:
        known = list(shipped_topologies())
        hint = did_you_mean(str(name_or_path), known)
        raise InputError(
            f"no topology '{name_or_path}'{hint}; shipped are {', '.join(known)}; "
            "a file of yours needs its path (./X.yaml)"
        )
    return found


def shipped_topologies() -> dict[str, Path]:
    """Name -> file of every topology that comes with the program."""
    folder = next((folder for folder in _SHIPPED if folder.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load_topology(name_or_path: str | Path) -> Topology:
    """The topology, checked. InputError with file and line for the first mistake."""
    document = load(find_topology(name_or_path))
    return _topology(document)


def parse_topology(text: str, source: str = "topology") -> Topology:
    """A topology from YAML text; `source` names it in errors."""
    return _topology(parse(text, source))


def _topology(document: Document) -> Topology:
    topology = validate(document, Topology)
    topology._document = document
    check(topology)
    return topology
