"""The blocks of the README and of docs/ as sessions: each page is carried out from top to bottom.

A comment before a block says what is done with it:

    <!-- run: user -->     its commands are run; also root, vm, minutes: what that takes
    <!-- file: mine.yaml -->    it is written to this file, which the commands then find
    <!-- shown: why -->    it is not carried out, and this is why

In a console block `$ ` starts a command, and what follows is its output: `...` stands for anything,
white space does not matter, no output means that it is not compared. `# exits 2` after a command is
its exit status, 0 otherwise.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = ("user", "root", "vm", "minutes")
TRIED = ("console", "yaml", "python")
_BLOCK = re.compile(
    r"(?:^<!-- (?P<what>run|file|shown): (?P<how>.+?) -->\n+)?^```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_EXITS = re.compile(r"\s+# exits (\d+)$")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    body: str
    what: str | None
    how: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Step:
    """One command of a console block. `output` None: not compared."""

    command: str
    output: str
    status: int


@dataclass
class Session:
    """A folder in which a page's blocks are carried out."""

    folder: Path
    commands: int = field(default=0)

    def __post_init__(self) -> None:
        """As in the checkout: its reference runs are below results/, its Python in .venv."""
        (self.folder / ".venv").symlink_to(sys.prefix)
        for run in sorted((ROOT / "results").glob("reference-*")):
            shutil.copytree(run, self.folder / "results" / run.name)

    def carry_out(self, block: Block) -> None:
        if block.what == "file":
            (self.folder / block.how).write_text(block.body)
        elif block.what == "run":
            for step in steps(block.body):
                self.run(block, step)

    def run(self, block: Block, step: Step) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", re.sub(r"\bsudo ", "", step.command)],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.commands += 1
        assert done.returncode == step.status, f"{block.where}: $ {step.command}\n{done.stdout}"
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        same = doctest.OutputChecker().check_output(step.output, done.stdout, flags)
        assert not step.output or same, (
            f"{block.where}: $ {step.command}\nthe page says:\n{step.output}\nit printed:\n{done.stdout}"
        )


def pages() -> list[Path]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if "_build" not in page.parts]


def blocks(page: Path) -> list[Block]:
    """The page's blocks that a reader may try."""
    text = page.read_text()
    return [
        Block(
            page=page,
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            body=found["body"],
            what=found["what"],
            how=found["how"] or "",
        )
        for found in _BLOCK.finditer(text)
        if found["language"] in TRIED
    ]


def layer(page: Path) -> str | None:
    """The most that a block of the page takes; None where nothing is run."""
    taken = [LAYERS.index(block.how) for block in blocks(page) if block.what == "run"]
    return LAYERS[max(taken)] if taken else None


def of_layer(*wanted: str) -> list[Path]:
    return [page for page in pages() if layer(page) in wanted]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT).with_suffix(""))


def steps(body: str) -> list[Step]:
    """The commands of a console block. A line that ends with a backslash goes on in the next."""
    found = []
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        count = next(i for i, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        command, output = "".join(lines[:count]).strip(), "".join(lines[count:])
        status = _EXITS.search(command)
        found.append(Step(_EXITS.sub("", command), output, int(status[1]) if status else 0))
    return found


def carry_out(page: Path, folder: Path) -> int:
    """Carry the page out in `folder`; how many commands that were."""
    session = Session(folder)
    for block in blocks(page):
        session.carry_out(block)
    return session.commands
