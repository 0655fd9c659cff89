"""Whether this kernel knows the features that a topology states."""

from __future__ import annotations

import os

from testbed.devices.features import PATTERNS
from testbed.errors import InputError
from testbed.topology.spec import Topology
from testbed.yamlfile import did_you_mean


def check_features(topology: Topology) -> None:
    """InputError for a feature that this kernel does not know, with the nearest one that it does."""
    requested = {name for placed in topology.placed().values() for name in placed.config.features}
    if not requested:
        return
    known = {*_kernel_features(), *PATTERNS}
    for end, placed in topology.placed().items():
        for name in placed.config.features:
            if name not in known:
                where = topology.where(end, "features")
                raise InputError(f"{where}: no feature '{name}'{did_you_mean(name, sorted(known))}")


def _kernel_features() -> list[str]:
    """The features that this kernel knows; asking needs no device of a lab."""
    from testbed.netlink.ethtool import Features
    from testbed.netlink.namespaces import own_namespace

    namespace = own_namespace()
    try:
        features = Features(namespace)
        try:
            return list(features.get("lo"))
        finally:
            features.close()
    finally:
        os.close(namespace)
