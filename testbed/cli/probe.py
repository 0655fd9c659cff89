"""testbed probe: what this kernel and machine can do."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("probe")(probe)


def probe(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """What this kernel and machine can do, found by trying, and which experiments can run here.

    Without root it says what needs root. Nothing is left behind and nothing of
    the machine's own network is touched.
    """
    import json as json_

    from testbed.experiments.resolve import load_experiment, shipped
    from testbed.probing import SECTIONS, find
    from testbed.probing.table import table
    from testbed.running.readiness import lacking_or_refused

    found = find()
    experiments = {name: lacking_or_refused(load_experiment(name), found) for name in shipped()}
    if json:
        record = {"capabilities": found.values, "why": found.why, "experiments": experiments}
        typer.echo(json_.dumps(record, indent=1))
    else:
        typer.echo(table(found, SECTIONS, experiments), nl=False)
