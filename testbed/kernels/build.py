"""Build a kernel from a tree, with a series and a config, and keep it by its content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from testbed.available import output_of, programs
from testbed.errors import InputError, TestbedError
from testbed.kernels import cache, kconfig, series
from testbed.kernels.tree import Tree, open_tree
from testbed.outcome import Outcome
from testbed.privilege import own_namespaces

# What a build needs, and the Debian package that has it.
TOOLS = {
    "git": "git",
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "perl": "perl",
    "pahole": "dwarves",
    "depmod": "kmod",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
HEADERS = {"/usr/include/gelf.h": "libelf-dev", "/usr/include/stdlib.h": "libc6-dev"}
SPACE_BYTES = 4 << 30
STEP = re.compile(
    r"^\s+(?:CC|AS|LD|AR|GEN|BTF|OBJCOPY|HOSTCC|UPD|CALL|KSYMS|NM|SORTTAB|BUILD)\s+(?:\[M\]\s+)?\S+"
)

Progress = Callable[[int, int | None, str], None]


class BuildFailed(TestbedError):
    """make ended with an error; says its first."""

    outcome = Outcome.BUILD_FAILED


@dataclass(frozen=True)
class Request:
    """A request to build a kernel.

    tree: a git tree, a folder or an archive. series: see `series.read_series`.
    base: the revision of a git tree to build on. fragments: over the lean config.
    """

    tree: Path
    series: str | None = None
    base: str | None = None
    fragments: tuple[Path, ...] = ()
    name: str | None = None
    jobs: int = 0


@dataclass(frozen=True)
class Built:
    """A built kernel, and what its builder should know."""

    kernel: cache.BuiltKernel
    reused: bool
    notes: tuple[str, ...] = ()


def build(request: Request, progress: Progress = lambda done, of, what: None) -> Built:
    """Build, or find what was built of the same content.

    progress: called with the steps done, those of the build before this one
    (None: unknown) and what is made. SeriesDoesNotApply and BuildFailed say where;
    InputError names options that do not hold.
    """
    programs("building a kernel", TOOLS, HEADERS)
    if request.name and not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,40}", request.name):
        raise InputError(f"name '{request.name}': letters, digits, '.', '-', '_' and '+', at most 41")
    patches = series.read_series(request.series, request.tree) if request.series else None
    base = request.base or (patches.base if patches else None)
    with open_tree(request.tree, base) as tree:
        commit = series.apply(tree, patches) if patches else tree.base
        requested = kconfig.merged(request.fragments)
        key = content_key(tree.tree_hash(commit), requested, tools=_tool_versions())
        if same := next((kernel for kernel in cache.kernels() if kernel.provenance.key == key), None):
            return Built(_named(same, request.name), reused=True)
        return _build(request, tree, commit, patches, requested, key, progress)


def content_key(tree_hash: str, requested: dict[str, str], tools: Sequence[str]) -> str:
    """What names a build: equal keys, equal kernels (hex SHA-256)."""
    parts = [tree_hash, kconfig.fragment(dict(sorted(requested.items()))), *tools]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def warnings_in(log: str, files: Sequence[str]) -> list[str]:
    """The compiler's warnings in `files`, each once, without the path of the build."""
    found: dict[str, None] = {}
    for path, rest in re.findall(r"^(\S+?):(\d+:\d+: warning: .*)$", log, flags=re.MULTILINE):
        for file in files:
            if path == file or path.endswith(f"/{file}"):
                found[f"{file}:{rest}"] = None
    return list(found)


def first_error(log: str) -> str:
    """What stopped a build: the compiler's or linker's first error, otherwise make's."""
    for pattern in (r".*(?:fatal error|error): .*", r".*undefined reference to .*", r"make.*\*\*\* .*"):
        if match := re.search(pattern, log):
            return match[0].strip()
    return "no error in the log"


def _build(
    request: Request,
    tree: Tree,
    commit: str,
    patches: series.Series | None,
    requested: dict[str, str],
    key: str,
    progress: Progress,
) -> Built:
    if shutil.disk_usage(tree.folder).free < SPACE_BYTES:
        raise TestbedError(
            f"{tree.folder}: less than {SPACE_BYTES >> 30} GiB left, a build needs that; set XDG_CACHE_HOME"
        )
    started = time.monotonic()
    tree.git("checkout", "--quiet", "--force", "--detach", commit)
    notes = _configure(request, tree, commit, requested)
    files = patches.files() if patches else []
    for name in files:
        # Compiled again even when an earlier build had the same file: its warnings are asked for.
        if name.endswith(".c") and (tree.source / name).exists():
            (tree.source / name).touch()
    log = _make(request, tree, key, progress)
    release = (tree.out / "include/config/kernel.release").read_text().strip()
    version = re.match(r"[\d.]+", release)
    name = request.name or "-".join(
        part
        for part in (version[0] if version else release, patches.name if patches else "", key[:8])
        if part
    )
    config = (tree.out / ".config").read_text()
    with cache.adding(name) as folder:
        shutil.copy(tree.out / "arch/x86/boot/bzImage", folder / "vmlinuz")
        (folder / "config").write_text(config)
        shutil.copy(tree.folder / "build.log", folder / "build.log")
        if cache.parse_config(config).get("CONFIG_MODULES") == "y":
            _install_modules(tree, folder, key)
        cache.write_record(
            folder,
            cache.Provenance(
                name=name,
                release=release,
                version=version[0] if version else release,
                source="build",
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                config_sha256=cache.config_hash(config),
                tree=tree.tree_hash(commit),
                base=tree.base,
                series=patches.records() if patches else [],
                compiler=_version_line("gcc"),
                key=key,
                warnings=warnings_in(log, files),
                build_s=round(time.monotonic() - started, 1),
            ),
        )
    return Built(cache.find(name), reused=False, notes=tuple(notes))


def _configure(request: Request, tree: Tree, commit: str, requested: dict[str, str]) -> list[str]:
    """Write .config and check that each option holds; notes on those of the lean config that do not."""
    tree.out.mkdir(exist_ok=True)
    wanted = tree.folder / "wanted.config"
    wanted.write_text(kconfig.fragment(requested))
    with _unchanged_stays(tree.out / ".config"):
        done = subprocess.run(
            ["make", "-s", "-C", str(tree.source), f"O={tree.out}", "allnoconfig"],
            env={**_environment(), "KCONFIG_ALLCONFIG": str(wanted)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise BuildFailed(f"make allnoconfig: {first_error(done.stdout + done.stderr)}")
    actual = cache.parse_config((tree.out / ".config").read_text())
    missing = kconfig.lost(requested, actual, tree, commit)
    left = kconfig.check_fragments(request.fragments, missing, list(actual))
    return [f"the lean config's {each}" for each in left]


@contextmanager
def _unchanged_stays(path: Path) -> Iterator[None]:
    """A file that the block writes anew with the same content keeps its time.

    A newer .config makes a header that nearly every file includes
    (arch/x86/Makefile: cpufeaturemasks.h), and so compiles everything again.
    """
    before = (path.read_bytes(), path.stat()) if path.exists() else None
    yield
    if before and path.read_bytes() == before[0]:
        os.utime(path, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))


def _make(request: Request, tree: Tree, key: str, progress: Progress) -> str:
    """Compile; the log, which is kept as build.log too."""
    counted = tree.folder / "steps"
    before = int(counted.read_text()) if counted.exists() else None
    steps = 0
    lines = []
    targets = ["bzImage"]
    if cache.parse_config((tree.out / ".config").read_text()).get("CONFIG_MODULES") == "y":
        targets.append("modules")
    argv = [*_ends_with_us(), *_make_argv(tree, key), f"-j{request.jobs or os.cpu_count() or 1}", *targets]
    with (tree.folder / "build.log").open("w") as log:
        process = subprocess.Popen(
            argv,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.write(line)
                lines.append(line)
                if STEP.match(line):
                    steps += 1
                    progress(steps, before, line.split()[-1])
        except BaseException:
            process.send_signal(signal.SIGKILL)
            raise
        finally:
            process.wait()
    text = "".join(lines)
    if process.returncode:
        full = "No space left on device" in text
        why = "no space left; set XDG_CACHE_HOME" if full else first_error(text)
        raise BuildFailed(f"the kernel does not build: {why} (log: {tree.folder / 'build.log'})")
    counted.write_text(str(max(steps, before or 0)))
    return text


def _install_modules(tree: Tree, folder: Path, key: str) -> None:
    done = subprocess.run(
        [*_make_argv(tree, key), f"INSTALL_MOD_PATH={folder}", "INSTALL_MOD_STRIP=1", "modules_install"],
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildFailed(f"make modules_install: {first_error(done.stdout + done.stderr)}")


def _make_argv(tree: Tree, key: str) -> list[str]:
    compiler = "ccache gcc" if shutil.which("ccache") else "gcc"
    return [
        "make",
        "-C",
        str(tree.source),
        f"O={tree.out}",
        f"CC={compiler}",
        f"LOCALVERSION=-testbed-{key[:8]}",
    ]


def _environment() -> dict[str, str]:
    """Nothing of this machine or hour goes into the kernel."""
    return {
        **os.environ,
        "LC_ALL": "C",
        "ARCH": "x86_64",
        "KBUILD_BUILD_USER": "testbed",
        "KBUILD_BUILD_HOST": "testbed",
        "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
        "KBUILD_BUILD_VERSION": "1",
        "CCACHE_DIR": str(cache.cache() / "ccache"),
        # A file that is not in the cache is not preprocessed once more for it.
        "CCACHE_DEPEND": "1",
    }


def _ends_with_us() -> list[str]:
    """make and all below it end when this program does, SIGKILL included."""
    return ["setpriv", "--pdeathsig", "KILL", *own_namespaces()]


def _named(kernel: cache.BuiltKernel, name: str | None) -> cache.BuiltKernel:
    """The same kernel under the requested name (its files shared)."""
    if name is None or name == kernel.name:
        return kernel
    with cache.adding(name) as folder:
        shutil.copytree(kernel.folder, folder, copy_function=os.link, dirs_exist_ok=True)
        (folder / cache.RECORD).unlink()
        cache.write_record(folder, kernel.provenance.model_copy(update={"name": name}))
    return cache.find(name)


def _tool_versions() -> list[str]:
    return [_version_line(tool) for tool in ("gcc", "ld", "pahole")]


def _version_line(tool: str) -> str:
    return output_of([tool, "--version"], TOOLS[tool]).partition("\n")[0].strip()
