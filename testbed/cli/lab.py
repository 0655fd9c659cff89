"""testbed up, down, ls, show, set, exec, shell: labs that stay up between commands."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from testbed.errors import InputError

LabName = Annotated[str, typer.Argument(metavar="LAB", help="The lab's name, or the file it came from.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

WITHOUT_ROOT = "`plan`, `check`, `graph`, `schema` and `report` work without"


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("up")(up)
    app.command("down")(down)
    app.command("ls")(ls)
    app.command("show")(show)
    app.command("set")(set_)
    passed_on = {"allow_interspersed_args": False}
    app.command("exec", context_settings=passed_on)(exec_)
    app.command("shell")(shell)


def up(
    topology: Annotated[str, typer.Argument(help="A shipped name (`veth-pair`) or a file.")],
    name: Annotated[str | None, typer.Option(help="The lab's name (the file's, without .yaml).")] = None,
    rebuild: Annotated[bool, typer.Option(help="Take down what is up under that name first.")] = False,
) -> None:
    """Bring a topology up and leave it up, in namespaces that `ip netns` shows as tb-LAB-NODE.

    Again with the same file there is nothing to do; with a changed file the
    difference is applied, or the reason told why that needs --rebuild.
    """
    from testbed.lab.named import bring_up
    from testbed.privilege import need_root
    from testbed.topology.loading import find_topology, load_topology

    need_root("up", WITHOUT_ROOT)
    path = find_topology(topology)
    lab = name or path.stem
    done = bring_up(load_topology(path), lab, str(path.absolute()), rebuild=rebuild)
    words = {
        "built": "is up",
        "rebuilt": "is up, rebuilt",
        "changed": "was up, and holds the changes now",
        "unchanged": "is up already, nothing to do",
    }
    typer.echo(f"lab {lab} {words[done]}")


def down(
    labs: Annotated[
        list[str] | None, typer.Argument(metavar="LAB...", help="Shipped names, or files.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every lab on this machine.")] = False,
) -> None:
    """Remove labs, half-built ones too. Only what carries the lab's mark is removed."""
    from testbed.lab.named import labs as existing
    from testbed.lab.named import take_down
    from testbed.privilege import need_root

    need_root("down", WITHOUT_ROOT)
    if every == bool(labs):
        raise InputError("down: name the labs, or say --all")
    for name in [lab.name for lab in existing()] if every else map(_name, labs or []):
        take_down(name)
        typer.echo(f"lab {name} is down")


def ls(json: Json = False) -> None:
    """List the labs on this machine, those that a killed `up` left half-built too."""
    import json as json_

    from testbed.lab.named import labs as existing
    from testbed.privilege import need_root

    need_root("ls", WITHOUT_ROOT)
    found = existing()
    if json:
        typer.echo(json_.dumps([lab.as_record() for lab in found], indent=1))
        return
    for lab in found:
        gone = "" if Path(lab.source).is_file() else " (gone)"
        typer.echo(f"{lab.name}\t{lab.status}\t{' '.join(lab.nodes)}\t{lab.source or 'no file known'}{gone}")


def show(lab: LabName, json: Json = False) -> None:
    """Requested and actual settings of every device; `drift` marks what was changed behind testbed's back."""
    import json as json_

    from testbed.lab.named import attached
    from testbed.lab.settings_table import as_text
    from testbed.privilege import need_root

    need_root("show", WITHOUT_ROOT)
    with attached(_name(lab)) as live:
        rows = live.compared()
        actual = live.read_back()
    if json:
        record = {"lab": live.name, "settings": [row.record() for row in rows], "actual": actual}
        typer.echo(json_.dumps(record, indent=1))
    else:
        typer.echo(as_text(rows))


def set_(
    lab: LabName,
    settings: Annotated[
        list[str], typer.Argument(metavar="NODE:DEVICE.SETTING=VALUE...", help="* in NODE or DEVICE: all.")
    ],
) -> None:
    """Change devices of a lab that is up, in the right order, and read every value back.

    What is refused, or would change something that is not requested, leaves all of it as it was.
    Features that follow the changed ones by the kernel's rules are printed.
    """
    from testbed.lab.named import attached
    from testbed.privilege import need_root
    from testbed.topology.assignment import parse_assignments

    need_root("set", WITHOUT_ROOT)
    changes = parse_assignments(settings)
    with attached(_name(lab), change=True) as live:
        followed = live.set(changes)
    for device, moves in groupby(followed, key=lambda move: move.end):
        words = ", ".join(f"{move.setting} {'on' if move.after else 'off'}" for move in moves)
        typer.echo(f"{device} follows: {words}")


def exec_(
    lab: LabName,
    node: Annotated[str, typer.Argument(help="A node of the lab.")],
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The command; after -- if it has options.")
    ],
) -> None:
    """Run a command inside a node; its exit status is this command's."""
    _become(lab, node, command[1:] if command[0] == "--" else command, {})


def shell(lab: LabName, node: Annotated[str, typer.Argument(help="A node of the lab.")]) -> None:
    """Open a shell inside a node."""
    _become(lab, node, [os.environ.get("SHELL", "/bin/sh")], {"debian_chroot": f"{_name(lab)}:{node}"})


def _become(lab: str, node: str, command: list[str], env: dict[str, str]) -> None:
    from testbed.lab.named import attached
    from testbed.nodes.enter import become
    from testbed.nodes.process import MARK
    from testbed.privilege import need_root
    from testbed.yamlfile import did_you_mean

    need_root("exec", WITHOUT_ROOT)
    with attached(_name(lab)) as live:
        if node not in live.nodes:
            hint = did_you_mean(node, list(live.nodes)) or f"; there are {', '.join(live.nodes)}"
            raise InputError(f"lab '{live.name}' has no node '{node}'{hint}")
        become(live.namespace(node), command, {**env, MARK: _name(lab)})  # `down` ends it with the lab


def _name(lab: str) -> str:
    """A lab's name, given as such or as the file it came from."""
    path = Path(lab)
    return path.stem if path.suffix in {".yaml", ".yml"} else lab
