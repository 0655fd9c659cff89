"""A patch series: read from a file, a folder, a git range or the list, and applied with git am."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from email import policy
from email.parser import BytesParser
from pathlib import Path

from testbed import available
from testbed.errors import InputError, MissingCapability, TestbedError
from testbed.kernels.tree import Tree, git, run_git
from testbed.outcome import Outcome
from testbed.records.run import Patch

RANGE = re.compile(r"(?P<first>[^\s.][^\s]*?)\.\.(?P<last>[^\s]*)")
MESSAGE_ID = re.compile(r"(?:https?://\S+/)?(?P<id>[^\s/@]+@[^\s/@]+)/?")


class SeriesDoesNotApply(TestbedError):
    """Says which patch, and why; `shown` is the hunk that failed."""

    outcome = Outcome.SERIES_DOES_NOT_APPLY

    def __init__(self, message: str, hunk: str) -> None:
        super().__init__(message)
        self.shown = hunk


@dataclass(frozen=True)
class Series:
    """Patches in their order, as mails. base: the revision that a range starts at, None elsewhere."""

    name: str
    mails: tuple[bytes, ...]
    base: str | None = None

    def records(self) -> list[Patch]:
        """Each patch as a run's record names it."""
        return [Patch(sha256=hashlib.sha256(mail).hexdigest(), subject=subject(mail)) for mail in self.mails]

    def files(self) -> list[str]:
        """The files that the series touches, from the top of the tree."""
        return sorted({path for mail in self.mails for path in touched(mail)})


def read_series(source: str, tree: Path) -> Series:
    """The series that `source` names: an mbox, a folder of patches, `A..B` in `tree`, or a message-id.

    InputError when there is none. A message-id needs b4, and a network.
    """
    path = Path(source)
    if path.is_dir():
        patches = [file for file in sorted(path.glob("*.patch")) if not file.name.startswith("0000-")]
        return _series(path.resolve().name, [file.read_bytes() for file in patches], source)
    if path.is_file():
        return _series(path.stem, _split(path), source)
    if match := RANGE.fullmatch(source):
        mails = _range(tree, source)
        return Series(re.sub(r"[^\w.-]+", "-", match["last"] or "HEAD"), tuple(mails), base=match["first"])
    if match := MESSAGE_ID.fullmatch(source):
        return _from_list(match["id"])
    raise InputError(f"series '{source}': no such file or folder, and not a range (A..B) or a message-id")


def apply(tree: Tree, series: Series) -> str:
    """The commit that the series makes on the tree's base.

    Only the files it touches are checked out for it, in a folder that is thrown
    away. SeriesDoesNotApply names the patch, and shows the hunk that failed.
    """
    with tempfile.TemporaryDirectory(prefix="am-", dir=tree.folder) as scratch:
        place = Path(scratch) / "work"
        tree.git("worktree", "add", "--quiet", "--no-checkout", "--detach", str(place), tree.base)
        try:
            git(place, "read-tree", "HEAD")
            known = set(git(place, "ls-files", "--", *series.files()).split("\n"))
            git(place, "checkout-index", "--force", "--", *(f for f in series.files() if f in known))
            for number, mail in enumerate(series.mails, start=1):
                patch = Path(scratch) / "patch"
                patch.write_bytes(mail)
                done = run_git(place, "am", "--quiet", "--keep-cr", str(patch))
                if done.returncode:
                    which = f"patch {number} of {len(series.mails)} '{subject(mail)}'"
                    reason, hunk = _why(place, mail, done.stderr)
                    raise SeriesDoesNotApply(f"series {series.name}: {which} does not apply: {reason}", hunk)
            return git(place, "rev-parse", "HEAD").strip()
        finally:
            tree.git("worktree", "remove", "--force", str(place))


def subject(mail: bytes) -> str:
    """A patch's subject without its [PATCH n/m]."""
    header = BytesParser(policy=policy.default).parsebytes(mail.split(b"\n---\n")[0], headersonly=True)
    text = re.sub(r"\s+", " ", str(header["subject"] or "(no subject)"))
    return re.sub(r"^(\[[^]]*\]\s*)+", "", text).strip()


def touched(mail: bytes) -> list[str]:
    """The files that a patch changes, makes, renames or removes."""
    pairs = re.findall(rb"^diff --git a/(\S+) b/(\S+)$", mail, flags=re.MULTILINE)
    return sorted({name.decode(errors="replace") for pair in pairs for name in pair})


def failing_hunk(mail: bytes, file: str, line: int) -> str:
    """The hunk of `file` that starts at `line` of the old file, or nothing."""
    text = mail.decode(errors="replace")
    for part in re.split(r"^(?=diff --git )", text, flags=re.MULTILINE)[1:]:
        if not re.match(rf"diff --git a/\S+ b/{re.escape(file)}$", part.splitlines()[0]):
            continue
        for hunk in re.split(r"^(?=@@ )", part, flags=re.MULTILINE)[1:]:
            if re.match(rf"@@ -{line}[ ,]", hunk):
                return re.split(r"^-- ?$", hunk, flags=re.MULTILINE)[0].rstrip()
    return ""


def _why(place: Path, mail: bytes, stderr: str) -> tuple[str, str]:
    """git's reason, and the hunk that failed."""
    run_git(place, "am", "--abort")
    if match := re.search(r"error: patch failed: (\S+):(\d+)", stderr):
        hunk = failing_hunk(mail, match[1], int(match[2]))
        return f"{match[1]}:{match[2]} is different in this tree", hunk
    lines = [line.removeprefix("error: ") for line in stderr.splitlines() if line.startswith("error: ")]
    return lines[0] if lines else (stderr.strip().splitlines() or ["git am failed"])[0], ""


def _series(name: str, mails: list[bytes], source: str) -> Series:
    if not any(touched(mail) for mail in mails):
        raise InputError(f"series '{source}': holds no patches")
    return Series(name, tuple(mail for mail in mails if touched(mail)))


def _split(path: Path) -> list[bytes]:
    """The mails of an mbox, in the order in which they stand in it."""
    with available.scratch() as scratch:
        done = run_git(path.resolve().parent, "mailsplit", "--keep-cr", f"-o{scratch}", str(path.resolve()))
        if done.returncode:
            raise InputError(f"series '{path}': not a mailbox of patches: {done.stderr.strip()}")
        return [file.read_bytes() for file in sorted(scratch.iterdir())]


def _range(tree: Path, source: str) -> list[bytes]:
    with available.scratch() as scratch:
        done = run_git(tree, "format-patch", "--quiet", "--zero-commit", "-o", str(scratch), source)
        if done.returncode:
            raise InputError(f"series '{source}': {done.stderr.strip().splitlines()[0]} (in {tree})")
        mails = [file.read_bytes() for file in sorted(scratch.iterdir())]
    if not mails:
        raise InputError(f"series '{source}': holds no commits in {tree}")
    return mails


def _from_list(message_id: str) -> Series:
    if not shutil.which("b4"):
        raise MissingCapability(f"a series by its message-id needs b4: pip install b4 (asked: {message_id})")
    with available.scratch() as scratch:
        done = subprocess.run(
            ["b4", "-n", "am", "-o", scratch, message_id], capture_output=True, text=True, check=False
        )
        boxes = sorted(scratch.glob("*.mbx"))
        if done.returncode or not boxes:
            last = (done.stderr.strip().splitlines() or ["nothing found"])[-1]
            raise InputError(f"series {message_id}: b4: {last}")
        return _series(message_id.split("@")[0], _split(boxes[0]), message_id)
