"""testbed experiment: look at experiment files without running them."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.cli.help import Group

NAME = Annotated[str, typer.Argument(help="A shipped name (`nagle`) or a file.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    group = typer.Typer(
        name="experiment",
        cls=Group,
        help="List, show and check experiment files.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("list")(list_)
    group.command("show")(show)
    group.command("check")(check)
    group.command("schema")(schema)
    app.add_typer(group, name="experiment")


def list_(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """The shipped experiments."""
    from json import dumps

    from testbed.experiments.resolve import load_experiment, shipped

    loaded = [load_experiment(name) for name in shipped()]
    if json:
        rows = [
            {"name": item.name, "description": item.experiment.description, "states": list(item.states)}
            for item in loaded
        ]
        typer.echo(dumps(rows, indent=1))
        return
    for item in loaded:
        typer.echo(f"{item.name:20s} {item.experiment.description.strip().splitlines()[0]}")


def show(
    experiment: NAME, json: Annotated[bool, typer.Option("--json", help="As JSON instead of YAML.")] = False
) -> None:
    """An experiment with every state resolved: its topology, settings, workload, CPUs."""
    from testbed.experiments.resolve import dump, load_experiment

    typer.echo(dump(load_experiment(experiment), as_json=json), nl=False)


def check(experiment: NAME) -> None:
    """Check an experiment file; one line with file and line for the first mistake."""
    from testbed.experiments.estimate import least_seconds
    from testbed.experiments.resolve import load_experiment

    resolved = load_experiment(experiment)
    seconds = least_seconds(resolved.experiment.protocol, resolved.states.values())
    typer.echo(f"{experiment}: good: {len(resolved.states)} states, at least {seconds:.0f} s")


def schema() -> None:
    """The JSON schema of an experiment file, for editors (the same as `testbed schema experiment`)."""
    from testbed.cli.schema import Subject
    from testbed.cli.schema import schema as print_schema

    print_schema(Subject.experiment)
