"""Import parts of pyroute2 without running its packages' __init__ modules.

That __init__ imports all there is, from DHCP and 9P to a database and asyncio: 226 modules. In an emulated
guest that is 8 s more until the first round, against 2 s for the messages alone, so this module puts
the two packages in place without running their __init__. Import it before any part, as __init__.py of this
folder does. Nobody else is affected: the first use of a name that is no part (`from pyroute2 import IPRoute`)
runs the __init__ after all.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

PACKAGES = ("pyroute2", "pyroute2.ethtool")


def _put_in_place(package: str) -> None:
    spec = find_spec(package)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named '{package}'", name=package)
    module, loader = module_from_spec(spec), spec.loader

    def find(name: str) -> Any:
        """The module's __getattr__: a part of this name, or what the package's __init__ makes of it."""
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
        _run_init(module)
        return getattr(module, name)

    def _run_init(module: ModuleType) -> None:
        module.__dict__.pop("__getattr__", None)
        loader.exec_module(module)

    module.__dict__["__getattr__"] = find
    sys.modules[package] = module


def copy_without(part: str, unwanted: str, **instead: object) -> Any:
    """A copy of `part`, for the caller alone, that finds only `instead` where it imports from `unwanted`.

    Where somebody imported `unwanted` already, `part` as everybody has it.
    """
    spec = find_spec(part)
    if unwanted in sys.modules or spec is None or spec.loader is None:
        return import_module(part)
    copy = module_from_spec(spec)
    stand_in = ModuleType(unwanted)
    stand_in.__dict__.update(instead)
    sys.modules[unwanted] = stand_in
    try:
        spec.loader.exec_module(copy)
    finally:
        del sys.modules[unwanted]
    return copy


for _package in PACKAGES:
    if _package not in sys.modules:
        _put_in_place(_package)
