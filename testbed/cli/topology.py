"""testbed plan, check: validate a topology file and show its operations; needs no root, changes nothing."""

from __future__ import annotations

from typing import Annotated

import typer

Topology = Annotated[str, typer.Argument(help="A shipped name (`veth-pair`) or a file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("plan")(plan)
    app.command("check")(check)


def plan(topology: Topology, json: Json = False) -> None:
    """The operations that `up` would do, in their order. Needs no root and changes nothing."""
    import json as json_

    from testbed.topology.loading import load_topology
    from testbed.topology.plan import plan as planned

    operations = planned(load_topology(topology))
    if json:
        typer.echo(json_.dumps([operation.as_record() for operation in operations], indent=1))
    else:
        for operation in operations:
            typer.echo(operation)


def check(topology: Topology, json: Json = False) -> None:
    """Check a topology file. The first mistake ends it, with file and line, and exit status 2."""
    import json as json_

    from testbed.lab.known_features import check_features
    from testbed.topology.loading import find_topology, load_topology

    path = find_topology(topology)
    loaded = load_topology(path)
    check_features(loaded)
    nodes, devices = len(loaded.nodes), len(loaded.placed())
    if json:
        typer.echo(json_.dumps({"file": str(path), "nodes": nodes, "devices": devices}))
    else:
        typer.echo(f"{path}: good, {nodes} nodes, {devices} devices")
