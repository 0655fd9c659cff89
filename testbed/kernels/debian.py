"""Packages of any suite of the machine's configured Debian archive, through apt.

apt does the work: its own mirror, proxy and keys, and it verifies every index
and package. Its state is kept apart (in the cache), so that suites which the
machine does not use can be read without changing the machine, and without root.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.errors import MissingCapability, TestbedError
from testbed.kernels import cache

# Releases whose kernels are worth comparing; each with its updates and backports.
# One that a mirror does not have is left out.
RELEASES = ("bookworm", "trixie")
POCKETS = ("", "-updates", "-backports")
INDEX_AGE_S = 24 * 3600.0


@dataclass(frozen=True)
class Source:
    """Where the machine gets its packages: one entry of apt's configuration."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...] = ("main",)
    signed_by: str | None = None


@dataclass
class Archive:
    """The archive's packages. Opened by `open_archive`."""

    folder: Path
    configuration: Path
    missing: list[str] = field(default_factory=list)  # suites that the mirror lacks

    def search(self, pattern: str) -> list[dict[str, str]]:
        """Packages whose name fits the regular expression: their control fields, newest version of each."""
        text = self._run(["apt-cache", "search", "--names-only", "--full", pattern])
        return [fields(paragraph) for paragraph in text.split("\n\n") if paragraph.strip()]

    def download(self, packages: Iterable[str], folder: Path) -> list[Path]:
        """The packages' .deb files in `folder`, verified by apt."""
        self._run(["apt-get", "-q", "-q", "download", *packages], cwd=folder)
        return sorted(folder.glob("*.deb"))

    def update(self) -> None:
        """Read the indices of every suite again. TestbedError when the mirror does not answer."""
        suites = _suites(self.folder)
        while True:
            failed = self._update()
            if not failed:
                break
            left = [suite for suite in suites if suite not in failed]
            if not left or left == suites:
                raise TestbedError("the Debian archive has none of the suites " + ", ".join(suites))
            self.missing = sorted({*self.missing, *failed})
            suites = left
            _write_sources(self.folder, machine_sources(), suites)
        (self.folder / "updated").touch()

    def _update(self) -> list[str]:
        """The suites that the mirror does not have (nothing: all were read)."""
        done = subprocess.run(
            ["apt-get", "-q", "-q", "-c", str(self.configuration), "update"],
            capture_output=True,
            text=True,
            check=False,
        )
        missing = re.findall(r"'\S+ (\S+) Release' does not have a Release file", done.stderr)
        # apt answers 0 when a mirror is out of reach, and warns.
        if not missing and (done.returncode or "Failed to fetch" in done.stderr):
            raise _apt_error(done.stderr, "update")
        return missing

    def _run(self, argv: Sequence[str], cwd: Path | None = None) -> str:
        what = next(word for word in argv[1:] if not word.startswith("-"))
        argv = [argv[0], "-c", str(self.configuration), *argv[1:]]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd)
        if done.returncode:
            raise _apt_error(done.stderr, what)
        return done.stdout


def open_archive(suites: Sequence[str] = (), refresh: bool = False) -> Archive:
    """The archive with the known releases, their backports, and the requested `suites`.

    Its indices are read when they are older than a day, when the suites changed,
    or with `refresh`. MissingCapability where there is no apt or no Debian source.
    """
    if not shutil.which("apt-get"):
        raise MissingCapability("fetching a kernel needs apt and a Debian archive; build one instead")
    sources = machine_sources()
    if not sources:
        raise MissingCapability("apt has no Debian source here (see /etc/apt/sources.list)")
    folder = cache.make_folder(cache.cache() / "apt")
    with cache.space(folder):
        for part in ("state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        configuration = folder / "apt.conf"
        configuration.write_text(_configuration(folder))
        wanted = [f"{release}{pocket}" for release in RELEASES for pocket in POCKETS]
        changed = _write_asked(folder, [*wanted, *(s for s in suites if s not in wanted)])
        if changed:
            _write_sources(folder, sources, _suites(folder))
    archive = Archive(folder, configuration)
    stamp = folder / "updated"
    old = not stamp.exists() or time.time() - stamp.stat().st_mtime > INDEX_AGE_S
    if changed or old or refresh:
        archive.update()
    return archive


def machine_sources(root: Path = Path("/etc/apt")) -> list[Source]:
    """apt's entries for the distribution's own archive (those with a suite named after a release)."""
    files = [root / "sources.list", *sorted((root / "sources.list.d").glob("*"))]
    found: list[Source] = []
    for path in files:
        if path.suffix == ".sources":
            found += parse_deb822(path.read_text(errors="replace"))
        elif path.suffix == ".list" and path.exists():
            found += parse_one_line(path.read_text(errors="replace"))
    return [source for source in found if _is_distribution(source)]


def parse_deb822(text: str) -> list[Source]:
    """The entries of a .sources file."""
    text = re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        entry = fields(paragraph)
        if "deb" not in entry.get("Types", "").split() or entry.get("Enabled", "yes").lower() == "no":
            continue
        for uri in entry.get("URIs", "").split():
            found.append(
                Source(
                    uri,
                    tuple(entry.get("Suites", "").split()),
                    tuple(entry.get("Components", "").split()),
                    entry.get("Signed-By"),
                )
            )
    return found


def parse_one_line(text: str) -> list[Source]:
    """The entries of a sources.list: `deb [signed-by=FILE] URI SUITE COMPONENT...`."""
    found = []
    for line in text.splitlines():
        match = re.match(
            r"deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<rest>.+)", line
        )
        if match:
            signed = re.search(r"signed-by=(\S+)", match["options"] or "")
            components = match["rest"].split("#")[0].split()
            found.append(
                Source(match["uri"], (match["suite"],), tuple(components), signed[1] if signed else None)
            )
    return found


def fields(paragraph: str) -> dict[str, str]:
    """A control paragraph's fields; lines that continue one are joined to it."""
    found: dict[str, str] = {}
    name = ""
    for line in paragraph.splitlines():
        if line[:1] in (" ", "\t") and name:
            found[name] += "\n" + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            found[name] = value.strip()
    return found


def _is_distribution(source: Source) -> bool:
    names = {*RELEASES, "stable", "oldstable", "testing"}
    return "main" in source.components and any(
        re.split(r"[-/]", suite)[0] in names for suite in source.suites
    )


def _suites(folder: Path) -> list[str]:
    return (folder / "suites").read_text().split()


def _write_asked(folder: Path, suites: list[str]) -> bool:
    """Record the requested suites; whether there is a new one."""
    path = folder / "suites"
    known = path.read_text().split() if path.exists() else []
    if set(suites) <= set(known):
        return False
    path.write_text("\n".join(dict.fromkeys([*known, *suites])) + "\n")
    return True


def _write_sources(folder: Path, sources: list[Source], suites: list[str]) -> None:
    """apt's source file: the machine's mirrors with `suites` in place of its own."""
    paragraphs = []
    mirrors: dict[tuple[str, bool], Source] = {}
    for source in sources:
        security = any("security" in suite for suite in source.suites)
        mirrors.setdefault((source.uri, security), source)
    for (uri, security), source in mirrors.items():
        names = [f"{release}-security" for release in RELEASES] if security else suites
        lines = ["Types: deb", f"URIs: {uri}", f"Suites: {' '.join(names)}", "Components: main"]
        if source.signed_by:
            lines.append("Signed-By: " + source.signed_by.replace("\n", "\n ").replace("\n \n", "\n .\n"))
        paragraphs.append("\n".join(lines))
    (folder / "kernels.sources").write_text("\n\n".join(paragraphs) + "\n")


def _configuration(folder: Path) -> str:
    return "\n".join(
        [
            f'Dir::State "{folder}/state";',
            f'Dir::Cache "{folder}/cache";',
            f'Dir::Etc::sourcelist "{folder}/kernels.sources";',
            'Dir::Etc::sourceparts "/dev/null";',
            # The cache may lie where apt's own user cannot read.
            'APT::Sandbox::User "root";',
            'Acquire::Languages "none";',
            'Acquire::Retries "2";',
            "#clear APT::Update::Post-Invoke-Success;",
            "#clear APT::Update::Post-Invoke;",
            "",
        ]
    )


def _apt_error(stderr: str, what: str) -> TestbedError:
    """apt's own first complaint, in one line."""
    lines = [line for line in stderr.splitlines() if line[:2] in ("E:", "W:")]
    text = lines[0][2:].strip() if lines else "no reason given"
    hint = ""
    if re.search(r"Failed to fetch|resolv|connect|Could not", stderr):
        hint = " (is there a network? what is in the cache still boots)"
    if "enough free space" in stderr or "No space left" in stderr:
        hint = " (free some space, or set XDG_CACHE_HOME)"
    return TestbedError(f"apt {what}: {text}{hint}")
