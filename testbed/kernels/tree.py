"""Kernel source trees: a private git repository for each, so that the user's tree is never changed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.kernels import cache

# A tree is Linux when it has these.
MARKS = ("Kbuild", "init/main.c", "net/core/dev.c")
# What an earlier build inside a plain folder may have left.
LEFTOVERS = ("*.o", "*.ko", "*.a", "*.cmd", ".config", "include/config/", "include/generated/")
# What tar calls to unpack, and the Debian package that has it where the names differ.
PACKAGES = {"xz": "xz-utils"}
AUTHOR = {
    "GIT_AUTHOR_NAME": "testbed",
    "GIT_AUTHOR_EMAIL": "testbed@example.invalid",
    "GIT_COMMITTER_NAME": "testbed",
    "GIT_COMMITTER_EMAIL": "testbed@example.invalid",
    # The same content makes the same commit, whenever.
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}


@dataclass(frozen=True)
class Tree:
    """A repository below the cache: `source` is its work tree, `out` where it is built, `base` a commit."""

    folder: Path
    base: str

    @property
    def source(self) -> Path:
        return self.folder / "src"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def git(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run git in the repository."""
        return git(self.source, *arguments, env=env)

    def tree_hash(self, commit: str) -> str:
        """The hash of a commit's content, whoever made it and when."""
        return self.git("rev-parse", f"{commit}^{{tree}}").strip()


@contextmanager
def open_tree(source: Path, base: str | None = None) -> Iterator[Tree]:
    """The repository for `source`: a git tree, a plain folder, or an archive (tar).

    base: a revision of a git tree (default HEAD; what is not committed is not built).
    It is locked while the block runs: two builds of one tree wait for each other.
    InputError for what is not a Linux tree.
    """
    if not source.exists():
        raise InputError(f"{source}: no such tree or archive")
    folder = cache.make_folder(cache.cache() / "trees" / _key(source))
    with cache.space(folder), (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Tree(folder, _import(source, folder, base))


def git(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """git's output. TestbedError with its own first complaint when it fails."""
    done = run_git(folder, *arguments, env=env)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["failed"]
        raise TestbedError(f"git {arguments[0]} in {folder}: {lines[0]}")
    return done.stdout


def run_git(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git with an author of our own, and no configuration of the user's."""
    environment = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": "/dev/null", **(env or {})}
    # Trees of another owner are read, not run.
    argv = ["git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-C", str(folder), *arguments]
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, errors="replace", check=False
    )


def is_repository(folder: Path) -> bool:
    """Whether `folder` is the top of a git work tree."""
    done = run_git(folder, "rev-parse", "--show-toplevel")
    return done.returncode == 0 and Path(done.stdout.strip()).resolve() == folder.resolve()


def _key(source: Path) -> str:
    """A name for the repository: of the place for a folder, of the content for an archive."""
    if source.is_file():
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:12]
    return hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:12]


def _import(source: Path, folder: Path, base: str | None) -> str:
    """Make the repository hold `source`; the commit that is its base."""
    if source.is_dir() and is_repository(source):
        return _import_repository(source, folder, base or "HEAD")
    if base:
        raise InputError(f"{source}: has no revisions, so --base means nothing")
    if source.is_file():
        return _import_archive(source, folder)
    _check_folder(source)
    return _import_folder(source, folder, exclude=LEFTOVERS)


def _import_repository(source: Path, folder: Path, base: str) -> str:
    found = run_git(source, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    if found.returncode:
        raise InputError(f"{source}: no revision '{base}'")
    commit = found.stdout.strip()
    for mark in MARKS:
        if run_git(source, "cat-file", "-e", f"{commit}:{mark}").returncode:
            raise InputError(f"{source}: not a Linux tree: {mark} is missing")
    if not (folder / "src/.git").exists():
        # Shares the objects of the user's repository, and writes nothing there.
        git(folder, "clone", "--quiet", "--shared", "--no-checkout", str(source.resolve()), "src")
    return commit


def _import_archive(source: Path, folder: Path) -> str:
    done = folder / "imported"
    if done.exists():
        return done.read_text().strip()
    scratch = folder / "extracted"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        _extract(source, scratch)
        tops = list(scratch.iterdir())
        top = tops[0] if len(tops) == 1 and tops[0].is_dir() else scratch
        _check_folder(top, named=source)
        commit = _import_folder(top, folder, exclude=())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    done.write_text(commit)
    return commit


def _import_folder(source: Path, folder: Path, exclude: Sequence[str]) -> str:
    """Commit the files of `source` to the repository, without writing to `source`."""
    if not (folder / "src/.git").exists():
        git(folder, "init", "--quiet", "src")
    target = folder / "src"
    env = {"GIT_DIR": str(target / ".git"), "GIT_INDEX_FILE": str(folder / "index")}
    # Forced: a distribution's source may come with a .gitignore that ignores all of it.
    paths = [".", *(f":(exclude,glob)**/{pattern}" for pattern in exclude)]
    git(source, "--work-tree", str(source.resolve()), "add", "--all", "--force", "--", *paths, env=env)
    written = git(target, "write-tree", env=env).strip()
    return git(target, "commit-tree", "-m", f"Import {source.name}", written).strip()


def _extract(source: Path, target: Path) -> None:
    target.mkdir()
    done = subprocess.run(
        ["tar", "-C", str(target), "-xf", str(source)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        if "No space left" in done.stderr:
            raise TestbedError(f"{target}: no space left to unpack {source.name}; set XDG_CACHE_HOME")
        if lacking := re.search(r"\b(\w+): (?:Cannot exec: No such file|not found)", done.stderr):
            package = PACKAGES.get(lacking[1], lacking[1])
            raise MissingCapability(f"unpacking {source.name} needs {lacking[1]}: apt-get install {package}")
        kind = "" if tarfile.is_tarfile(source) else " (not a tar archive)"
        raise InputError(f"{source}: cannot unpack{kind}: {done.stderr.strip().splitlines()[0]}")


def _check_folder(folder: Path, named: Path | None = None) -> None:
    for mark in MARKS:
        if not (folder / mark).is_file():
            raise InputError(f"{named or folder}: not a Linux tree: {mark} is missing")
