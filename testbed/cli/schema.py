"""testbed schema: the JSON schema of what a user writes and of what a run leaves."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from msgspec import Struct


class Subject(StrEnum):
    """What there is a schema of."""

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
    model = getattr(import_module(module), name)
    # What a run leaves always has every field; in a file a field with a default may be left out.
    written = subject in (Subject.topology, Subject.experiment)
    if subject is Subject.round:
        body = _round_schema(model)
    else:
        body = model.model_json_schema(by_alias=True, mode="validation" if written else "serialization")
    draft = "https://json-schema.org/draft/2020-12/schema"
    typer.echo(json.dumps({"$schema": draft, **body}, indent=1))


def _round_schema(model: type[Struct]) -> dict[str, Any]:
    """As pydantic writes those of the others: the model itself at the top, every field required."""
    import msgspec

    found = msgspec.json.schema(model)
    parts: dict[str, dict[str, Any]] = found["$defs"]
    for part in parts.values():
        part["required"] = list(part["properties"])
    return {**parts.pop(model.__name__), "$defs": parts}
