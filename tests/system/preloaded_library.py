"""Builds the libraries of tests/system/preloaded, which are put before a tool's own (LD_PRELOAD)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCES = Path(__file__).parent / "preloaded"


def build(name: str, folder: Path) -> Path:
    """Compile `name`.c into `folder`; the path for LD_PRELOAD. Skips the test where no compiler can."""
    library = folder / f"{name}.so"
    source = _SOURCES / f"{name}.c"
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not Path("/usr/include/dlfcn.h").exists():
        pytest.skip("no C compiler with the headers of the C library")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True
    )
    return library
