"""testbed run: carry an experiment out."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testbed.cli.values import seconds
from testbed.errors import InputError

if TYPE_CHECKING:
    from testbed.experiments.resolve import Override, Resolved
    from testbed.records.store import StoredRun
    from testbed.running.runner import Stop
    from testbed.running.session import Ended

# The section of the experiment file that an option goes into.
SECTIONS = {
    **dict.fromkeys(("duration", "omit"), "workload"),
    **dict.fromkeys(("target", "cap", "seed"), "protocol"),
    **dict.fromkeys(("collector", "stacks", "profile"), "collect"),
}


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("run")(run)


def run(
    experiment: Annotated[str, typer.Argument(help="A shipped name (`nagle`) or a file.")] = "",
    rounds: Annotated[int | None, typer.Option(min=1, help="Valid rounds per state.")] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="Measured part of a round: 10s.")
    ] = None,
    omit: Annotated[
        str | None, typer.Option(metavar="TIME", help="The warm-up before it, excluded: 1s.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Continue until each effect is known to +- this, such as 1%.")
    ] = None,
    cap: Annotated[
        int | None, typer.Option(min=1, help="Maximum of rounds per state, with --target.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(parser=seconds, metavar="TIME", help="Plan the rounds into this time: 10m."),
    ] = None,
    state: Annotated[list[str] | None, typer.Option(help="Only this state; repeat for more.")] = None,
    kernel: Annotated[
        list[str] | None, typer.Option(help="Boot this kernel of `kernel list`; repeat to compare several.")
    ] = None,
    boots: Annotated[int, typer.Option(min=1, help="Boots of each kernel, in the order A B B A.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed for the order of rounds.")] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", help="NODE:DEVICE.SETTING=VALUE or workload.KEY=VALUE; repeat for more."),
    ] = None,
    collector: Annotated[
        str | None, typer.Option(help="Source of packet sizes: auto, bpf, af_packet, none.")
    ] = None,
    stacks: Annotated[
        str | None, typer.Option(help="Record the kernel stacks of packets that fit, such as 'size > 65536'.")
    ] = None,
    profile: Annotated[bool, typer.Option(help="Record where the CPU time went, by function.")] = False,
    results: Annotated[Path | None, typer.Option(help="Where runs go (results/).")] = None,
    resume: Annotated[str | None, typer.Option(help="Continue this interrupted run.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run an experiment: every state, round after round in random blocks, with its evidence.

    Ctrl-C ends after the round in progress, a second one at once; what was
    measured is kept, and --resume goes on. Exit status: 0 when every wanted
    round is valid and every expectation holds, 1 when not, 2 for bad input,
    3 for something this machine or kernel lacks.
    """
    from testbed.cli.progress import Terminal
    from testbed.privilege import need_root
    from testbed.records.store import find_run, open_run, results_folder
    from testbed.running.session import carry_out, kernels_of

    need_root("run", "`testbed experiment show|check`, `plan`, `check`, `graph` and `report` work without")
    folder = results_folder(results)
    options = {"duration": duration, "omit": omit, "target": target, "cap": cap, "seed": seed}
    evidence = {"collector": collector, "stacks": stacks, "profile": profile or None}
    overrides = _overrides(rounds, {**options, **evidence}, assign or [])
    if resume is not None:
        stored = open_run(find_run(resume, folder))
        resolved = _resumed(experiment, overrides, state or [], stored)
    elif experiment:
        stored = None
        resolved = _planned(experiment, overrides, state or [], budget)
    else:
        raise InputError("run: name an experiment (see `testbed experiment list`), or --resume a run")
    if stored and not kernel:
        kernel, boots = booted_kernels(stored), stored.run.boots
    kernels = kernels_of(resolved, kernel or [], boots)
    with stop_on_signals() as stop, Terminal() as terminal:
        ended = carry_out(
            resolved,
            stored,
            kernels=kernels,
            results=folder,
            argv=["testbed", *sys.argv[1:]],
            observer=terminal,
            stop=stop,
        )
    _print(ended, json)
    raise typer.Exit(ended.exit_status)


def _overrides(
    rounds: int | None,
    options: Mapping[str, float | str | bool | None],
    assign: list[str],
) -> list[Override]:
    """The options as overrides of the experiment file, each with its name for errors."""
    from testbed.experiments.resolve import Override, parse_override

    overrides = []
    if rounds is not None:
        # Exactly so many, whatever target the file has, unless one is asked for here.
        exact = {} if options["target"] else {"cap": rounds}
        overrides.append(Override({"protocol": {"rounds": rounds, **exact}}, f"--rounds {rounds}"))
    for name, value in options.items():
        if value is not None:
            tree: dict[str, Any] = {SECTIONS[name]: {name: value}}
            tree = {"overrides": tree} if SECTIONS[name] == "workload" else tree
            overrides.append(Override(tree, f"--{name}" if value is True else f"--{name} {value}"))
    return [*overrides, *(parse_override(text) for text in assign)]


def _planned(experiment: str, overrides: list[Override], states: list[str], budget: float | None) -> Resolved:
    from testbed.experiments.estimate import blocks_within
    from testbed.experiments.resolve import Override, load_experiment

    resolved = load_experiment(experiment, overrides=overrides, states=states)
    if budget is None:
        return resolved
    blocks = blocks_within(resolved, budget)
    planned = Override({"protocol": {"rounds": blocks, "cap": blocks}}, f"--budget {budget:g}s")
    return load_experiment(experiment, overrides=[*overrides, planned], states=states)


def _resumed(experiment: str, overrides: list[Override], states: list[str], stored: StoredRun) -> Resolved:
    """The recorded experiment, or the named one, which the runner then compares with the recorded."""
    from testbed.experiments.resolve import load_experiment
    from testbed.running.runner import rebuild

    if experiment:
        return load_experiment(experiment, overrides=overrides, states=states)
    return rebuild(stored)


def booted_kernels(stored: StoredRun) -> list[str]:
    """The kernels that a run booted; none when the machine's own kernel measured."""
    return [name for name, kernel in stored.run.kernels.items() if kernel.accelerator]


def _print(ended: Ended, json: bool) -> None:
    """The report on stdout, so that it can be piped; where the files are on stderr."""
    from testbed.reports.output import render

    typer.echo(render(ended.folder, "json" if json else "text"), nl=False)
    for line in ended.failures:
        typer.echo(f"failed: {line}", err=True)
    typer.echo(f"run: {ended.folder} ({ended.status})", err=True)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """The first SIGINT or SIGTERM requests a stop after the round in progress, the second stops at once."""
    from testbed.running.runner import Stop

    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True
        typer.echo("testbed: ending after this round; once more ends at once", err=True)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
