"""testbed schema: JSON schemas of topology and experiment files, and of the records of a run."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import typer


class Subject(StrEnum):
    """Subjects that have a schema."""

    run = "run"
    round = "round"
    report = "report"
    topology = "topology"
    experiment = "experiment"


MODELS = {
    Subject.run: "testbed.records.run:Run",
    Subject.round: "testbed.records.round:Round",
    Subject.report: "testbed.analysis.report:ReportData",
    Subject.topology: "testbed.topology.spec:Topology",
    Subject.experiment: "testbed.experiments.spec:Experiment",
}


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("schema")(schema)


def schema(
    subject: Annotated[Subject, typer.Argument(help="run, round, report, topology or experiment.")],
) -> None:
    """Print a JSON schema: of run.json, of a line of rounds.jsonl, of `report --json`, of a file.

    An editor that knows the schema of a topology or an experiment completes its
    keys and marks mistakes while they are written.
    """
    import json

    module, _, name = MODELS[subject].partition(":")
    written = subject in (Subject.topology, Subject.experiment)
    body = schema_of(getattr(import_module(module), name), written=written)
    draft = "https://json-schema.org/draft/2020-12/schema"
    typer.echo(json.dumps({"$schema": draft, **body}, indent=1))


def schema_of(model: Any, *, written: bool) -> dict[str, Any]:
    """The JSON schema of a model of pydantic or msgspec.

    What a run leaves always has every field; in a file that a user has `written`, a field with a
    default may be left out.
    """
    import msgspec

    if not issubclass(model, msgspec.Struct):
        found: dict[str, Any] = model.model_json_schema(
            by_alias=True, mode="validation" if written else "serialization"
        )
        return found
    parts: dict[str, dict[str, Any]] = msgspec.json.schema(model)["$defs"]
    for part in parts.values() if not written else ():
        part["required"] = list(part["properties"])
    return {**parts.pop(model.__name__), "$defs": parts}
