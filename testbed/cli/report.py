"""testbed report: what a run found, in the form asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testbed.errors import TestbedError


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("report")(report)


def report(
    run: Annotated[
        str, typer.Argument(help="A run's folder, its id below results/, or `latest`.")
    ] = "latest",
    format: Annotated[
        str, typer.Option(help="text, ascii, table, json, markdown, html, csv, junit or ktap.")
    ] = "text",
    output: Annotated[Path | None, typer.Option(help="Write to this file only.")] = None,
    results: Annotated[Path | None, typer.Option(help="Where runs are (results/).")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Report on a run, finished or not: figures with intervals, comparisons, how it was measured.

    Needs no root, and nothing but the run's folder. Text is printed and kept
    there as report.txt; HTML is written there as report.html.
    """
    from testbed.experiments.store import find_run, results_folder
    from testbed.reports.output import KEPT, render

    folder = find_run(run, results_folder(results))
    format = "json" if json else format
    text = render(folder, format)
    if output is not None:
        _write(output, text)
        return
    kept = format in KEPT and _keep(folder / KEPT[format], text)
    if kept and format == "html":
        typer.echo(folder / KEPT[format])
    else:
        typer.echo(text, nl=False)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TestbedError(f"{path}: cannot write: {error.strerror}") from None


def _keep(path: Path, text: str) -> bool:
    """Keep a copy in the run's folder, where we may: somebody else's evidence may not be ours to write to."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        return False
    return True
