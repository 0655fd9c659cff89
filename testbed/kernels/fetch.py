"""Stock kernels from the Debian archive, unpacked into the cache."""

from __future__ import annotations

import bisect
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from testbed.available import programs
from testbed.errors import InputError, TestbedError
from testbed.kernels import cache, debian
from testbed.versions import order_key, version_fits

PACKAGES = r"^linux-(image|base|binary|modules)-(unsigned-)?[0-9].*-amd64(-unsigned)?$"
FLAVOURS = ("cloud", "generic")


@dataclass(frozen=True)
class Candidate:
    """A kernel that the archive offers."""

    version: str
    release: str
    flavour: str
    signed: bool
    packages: tuple[cache.Package, ...]


def fetch(version: str, flavour: str = "cloud", suites: Sequence[str] = ()) -> cache.BuiltKernel:
    """The newest kernel whose version begins with `version` (`7.3.4`, `6.12`, `latest`).

    flavour: `cloud` (small, virtiofs built in) or `generic` (9P as modules, all drivers).
    suites: of the archive, beside Debian's releases with their backports.
    Nothing is downloaded when it is in the cache. InputError for an unknown
    version names the nearest ones.
    """
    if flavour not in FLAVOURS:
        raise InputError(f"flavour '{flavour}': one of {', '.join(FLAVOURS)}")
    if not re.fullmatch(r"latest|\d+(\.\d+)*", version):
        raise InputError(f"'{version}' is not a kernel version: write 7.3.4, 6.12 or latest")
    if cached := _cached(f"{version}-{flavour}"):
        return cached
    programs("fetching a kernel", {"dpkg-deb": "dpkg", "depmod": "kmod"})
    offered = candidates(debian.open_archive(suites).search(PACKAGES))
    if not any(version in ("latest", each.version) for each in offered):
        # A version that is not among yesterday's may have come since.
        offered = candidates(debian.open_archive(suites, refresh=True).search(PACKAGES))
    chosen = choose(version, flavour, offered)
    return _cached(f"{chosen.version}-{flavour}") or _unpack(chosen, suites)


def candidates(packages: list[dict[str, str]]) -> list[Candidate]:
    """The kernels among the archive's packages, each once (signed where it is).

    One of which the archive has kept the image alone, which then holds nothing, is left out.
    """
    there = {(package["Package"], package["Version"]) for package in packages}
    found: dict[str, Candidate] = {}
    for package in packages:
        match = re.fullmatch(
            r"linux-image-(?P<first>unsigned-)?(?P<release>\d\S*?-amd64)(?P<last>-unsigned)?",
            package["Package"],
        )
        if not match or re.search(r"-rt-|-dbg", package["Package"]):
            continue
        release = match["release"]
        candidate = Candidate(
            version=re.split(r"[-~+]", package["Version"])[0],
            release=release,
            flavour="cloud" if release.endswith("-cloud-amd64") else "generic",
            signed=not (match["first"] or match["last"]),
            packages=_parts(package, release),
        )
        if any((part.name, part.version) not in there for part in candidate.packages):
            continue
        if candidate.signed or release not in found:
            found[release] = candidate
    return sorted(found.values(), key=lambda each: (order_key(each.version), each.release))


def choose(version: str, flavour: str, offered: list[Candidate]) -> Candidate:
    """The newest of `offered` that fits. InputError with the nearest versions when none does."""
    fits = [
        each
        for each in offered
        if each.flavour == flavour and (version == "latest" or version_fits(version, each.version))
    ]
    if fits:
        return max(fits, key=lambda each: (order_key(each.version), order_key(each.release)))
    known = sorted({each.version for each in offered if each.flavour == flavour}, key=order_key)
    if not known:
        raise InputError("the archive offers no kernel for this machine")
    place = bisect.bisect([order_key(each) for each in known], order_key(version))
    near = known[max(0, place - 2) : place + 2]
    raise InputError(f"the archive has no kernel {version}; the nearest are {', '.join(near)}")


def _parts(package: dict[str, str], release: str) -> tuple[cache.Package, ...]:
    """The packages that hold the kernel: the image itself, or since 7.1 those that it depends on."""
    names = re.findall(
        rf"linux-(?:base|binary|binary-unsigned|modules)-{re.escape(release)}(?=[ ,]|$)",
        package.get("Depends", ""),
    )
    if not names:
        return (_package(package),)
    return tuple(cache.Package(name=name, version=package["Version"], sha256="") for name in names)


def _package(control: dict[str, str]) -> cache.Package:
    return cache.Package(
        name=control["Package"], version=control["Version"], sha256=control.get("SHA256", "")
    )


def _cached(name: str) -> cache.BuiltKernel | None:
    return next((kernel for kernel in cache.kernels() if kernel.name == name), None)


def _unpack(chosen: Candidate, suites: Sequence[str]) -> cache.BuiltKernel:
    name = f"{chosen.version}-{chosen.flavour}"
    offered = debian.open_archive(suites)
    with cache.adding(name) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
        debs = Path(scratch)
        names = [f"{package.name}={package.version}" for package in chosen.packages]
        for deb in offered.download(names, debs):
            _run(["dpkg-deb", "-x", str(deb), str(debs / "root")])
        _take(debs / "root", chosen.release, folder)
        config = (folder / "config").read_text()
        cache.write_record(
            folder,
            cache.Provenance(
                name=name,
                release=chosen.release,
                version=chosen.version,
                source="archive",
                flavour=chosen.flavour,
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                config_sha256=cache.config_hash(config),
                packages=_with_hashes(offered, chosen.packages),
            ),
        )
    return cache.find(name)


def _with_hashes(offered: debian.Archive, packages: Sequence[cache.Package]) -> list[cache.Package]:
    """The packages with the hashes that apt verified them against."""
    names = "|".join(re.escape(package.name) for package in packages)
    return [_package(control) for control in offered.search(f"^({names})$")]


def _take(root: Path, release: str, folder: Path) -> None:
    """Move image, config and modules out of the unpacked packages, wherever this release keeps them."""
    modules = next(
        (
            root / part
            for part in (f"usr/lib/modules/{release}", f"lib/modules/{release}")
            if (root / part).is_dir()
        ),
        None,
    )
    if modules is None:
        raise TestbedError(
            f"the packages of {release} hold no modules folder; is the package split in a new way?"
        )
    for name, places in {
        "vmlinuz": (modules / "vmlinuz", root / f"boot/vmlinuz-{release}"),
        "config": (modules / "config", root / f"boot/config-{release}"),
    }.items():
        place = next((path for path in places if path.is_file()), None)
        if place is None:
            raise TestbedError(
                f"the packages of {release} hold no {name}; is the package split in a new way?"
            )
        shutil.move(place, folder / name)
    (folder / "lib/modules").mkdir(parents=True)
    shutil.move(modules, folder / "lib/modules" / release)
    _run(["depmod", "-b", str(folder), release])


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        full = " (no space left; set XDG_CACHE_HOME)" if "No space left" in done.stderr else ""
        raise TestbedError(f"{argv[0]}: {done.stderr.strip().splitlines()[-1]}{full}")
