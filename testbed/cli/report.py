"""testbed report, compare, export, reproduce: report on runs, and repeat them on other machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.errors import InputError, TestbedError, printable
from testbed.reports.formats import FORMATS, KEPT


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("report")(report)
    app.command("compare")(compare)
    app.command("export")(export)
    app.command("reproduce")(reproduce)


def report(
    run: Annotated[
        str, typer.Argument(help="A run's folder, its id below results/, an exported tar, or `latest`.")
    ] = "latest",
    format: Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")] = "text",
    output: Annotated[Path | None, typer.Option(help="Write to this file only.")] = None,
    results: Annotated[Path | None, typer.Option(help="Where runs are (results/).")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Report on a run, finished or not: figures with intervals, comparisons, how it was measured.

    Needs no root, and nothing but the run's folder. Text is printed and kept
    there as report.txt; HTML is written there as report.html.
    """
    from testbed.records.bundle import run_folder
    from testbed.records.store import results_folder
    from testbed.reports.output import render

    format = "json" if json else format
    archive = Path(run).is_file()
    with run_folder(run, results_folder(results)) as folder:
        text = render(folder, format)
        if output is not None:
            _write(output, text)
            return
        kept = not archive and format in KEPT and _keep(folder / KEPT[format], text)
    if kept and format == "html":
        typer.echo(folder / KEPT[format])
    else:
        typer.echo(printable(text, keep="\n\t"), nl=False)


def compare(
    run_a: Annotated[str, typer.Argument(help="The baseline: a run's folder or id, or an exported tar.")],
    run_b: Annotated[str, typer.Argument(help="The run to compare with it.")],
    states: Annotated[list[str] | None, typer.Option(help="Only this state; repeat for more.")] = None,
    results: Annotated[Path | None, typer.Option(help="Where runs are (results/).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two runs state by state: before and after a patch, or two machines.

    What differs between the runs comes first. The comparison is unpaired: for a
    paired one measure both in one run, with --kernel.
    """
    from testbed.analysis.reading import read_report
    from testbed.records.bundle import run_folder
    from testbed.records.store import results_folder
    from testbed.reports.run_comparison import compare_runs, compare_text

    folder = results_folder(results)
    with run_folder(run_a, folder) as one, run_folder(run_b, folder) as other:
        a, b = read_report(one), read_report(other)
    for state in states or []:
        if state not in a.data.states or state not in b.data.states:
            known = ", ".join(name for name in a.data.states if name in b.data.states) or "none"
            raise InputError(f"compare: state '{state}' is not in both runs; in both are {known}")
    found = compare_runs(a, b, states or ())
    if not found.comparisons:
        raise InputError(f"compare: {run_a} and {run_b} have no state in common with valid rounds in both")
    text = found.model_dump_json(indent=2) + "\n" if json else compare_text(found)
    typer.echo(printable(text, keep="\n\t"), nl=False)


def export(
    run: Annotated[
        str, typer.Argument(help="A run's folder, its id below results/, or `latest`.")
    ] = "latest",
    output: Annotated[Path | None, typer.Option(help="The file to write (RUN-ID.tar.gz).")] = None,
    results: Annotated[Path | None, typer.Option(help="Where runs are (results/).")] = None,
) -> None:
    """Pack a run into one file, for `testbed reproduce` elsewhere. Prints the file's name."""
    from testbed.records.bundle import export_run
    from testbed.records.store import find_run, open_run, results_folder

    folder = find_run(run, results_folder(results))
    open_run(folder)  # refuses what is no run
    target = output or Path(f"{folder.resolve().name}.tar.gz")
    export_run(folder.resolve(), target)
    typer.echo(target)


def reproduce(
    run: Annotated[str, typer.Argument(help="A run's folder or id, or a tar that `testbed export` made.")],
    results: Annotated[Path | None, typer.Option(help="Where runs go (results/).")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run it without asking for confirmation.")] = False,
) -> None:
    """Run somebody's experiment again here, and put its effects beside theirs.

    First says what the run asks this machine to do as root, and asks whether to; where
    nobody can be asked (a CI job), --yes is needed. Then says what differs here. Effects
    are judged (agrees, disagrees, cannot tell), absolute figures are only shown. Exit
    status 0 when every effect agrees.
    """
    from testbed.records.bundle import run_folder
    from testbed.records.store import results_folder

    folder = results_folder(results)
    with run_folder(run, folder) as original:
        raise typer.Exit(_reproduce(original, folder, yes))


def _reproduce(original: Path, results: Path, yes: bool) -> int:
    from testbed.analysis.reading import read_report
    from testbed.cli.progress import Terminal
    from testbed.cli.run import booted_kernels, stop_on_signals
    from testbed.privilege import need_root
    from testbed.records.store import open_run
    from testbed.reports.run_comparison import reproduced, reproduced_text
    from testbed.running.preview import preview
    from testbed.running.runner import rebuild
    from testbed.running.session import carry_out, kernels_of

    stored = open_run(original)
    resolved = rebuild(stored)
    booted = booted_kernels(stored)
    for line in preview(resolved, booted, stored.run.boots, results):
        typer.echo(line, err=True)
    need_root("reproduce", "`report` and `compare` work without")
    _agree(yes)
    kernels = kernels_of(resolved, booted, stored.run.boots)
    argv = ["testbed", *sys.argv[1:]]
    with stop_on_signals() as stop, Terminal() as terminal:
        ended = carry_out(
            resolved, None, kernels=kernels, results=results, argv=argv, observer=terminal, stop=stop
        )
    theirs, ours = read_report(original), read_report(ended.folder)
    typer.echo(printable(reproduced_text(theirs, ours), keep="\n\t"), nl=False)
    typer.echo(f"run: {ended.folder} ({ended.status})", err=True)
    judged = reproduced(theirs, ours)
    return 0 if judged and all(one.judgement == "agrees" for one in judged) else 1


def _agree(yes: bool) -> None:
    """Go on only when the person at the terminal, or --yes, says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError("reproduce: nobody can be asked here; read what the run asks for, and give --yes")
    if not typer.confirm("Do this here, as root?", err=True):
        raise typer.Exit(1)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TestbedError(f"{path}: cannot write: {error.strerror}") from None


def _keep(path: Path, text: str) -> bool:
    """Keep a copy in the run's folder, where we may: somebody else's evidence may not be ours to write to."""
    from testbed.unfinished import write_whole

    try:
        write_whole(path, text.encode())
    except OSError:
        return False
    return True
