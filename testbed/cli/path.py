"""testbed path, graph: where packets go in a topology, and what it looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from testbed.path.predict import Hop, Traits
    from testbed.path.verify import Checked
    from testbed.topology.spec import Topology as TopologySpec

Topology = Annotated[str, typer.Argument(help="A shipped name (`veth-router`) or a file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("path")(path)
    app.command("graph")(graph)


def path(
    topology: Topology,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The node that sends.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The node that receives.")],
    family: Annotated[int, typer.Option("--family", help="IP version: 4 or 6.")] = 6,
    verify: Annotated[
        bool, typer.Option("--verify", help="Send a short flow and compare what is seen at each hop.")
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="NODE:DEVICE.SETTING=VALUE over the file's, * in either."),
    ] = None,
    declare: Annotated[
        list[str] | None,
        typer.Option("--declare", help="Kernel behaviour that cannot be read back: `resegment`."),
    ] = None,
    json: Json = False,
) -> None:
    """The largest TCP packet at each hop from one node to another, and where it is cut into what.

    Brings the topology up unnamed and reads limits, features and routes back.
    --verify says of each hop: exact, within (smaller, of the same class), not seen, or disagrees.
    Exit status 1 when a hop disagrees, or none was seen.
    """
    from testbed.lab.lab import open_lab
    from testbed.path.forecast import forecast
    from testbed.privilege import need_root
    from testbed.topology.loading import load_topology

    need_root("path", "`plan`, `check` and `graph` work without")
    _check_family(family)
    traits = _traits(declare or [])
    with open_lab(changed(load_topology(topology), changes or [])) as lab:
        hops = forecast(lab, source, target, family, traits)
        checked, agreed = None, True
        if verify:
            from testbed.path.verify import all_agree, check_path

            checked = check_path(lab, hops, source, target, family)
            agreed = all_agree(checked)
    _print(hops, checked, json)
    if not agreed:
        raise typer.Exit(1)


def graph(
    topology: Topology,
    form: Annotated[
        str, typer.Option("--format", help="text for the terminal, mermaid or dot for documents.")
    ] = "text",
) -> None:
    """Draw a topology: its nodes, their devices, and what joins them. Needs no root."""
    from testbed.errors import InputError
    from testbed.topology.graph import FORMS
    from testbed.topology.loading import load_topology
    from testbed.yamlfile import did_you_mean

    if form not in FORMS:
        hint = did_you_mean(form, list(FORMS)) or f"; there are {', '.join(FORMS)}"
        raise InputError(f"--format {form}: no such format{hint}")
    typer.echo(FORMS[form](load_topology(topology)), nl=False)


def _check_family(family: int) -> None:
    from testbed.errors import InputError

    if family not in (4, 6):
        raise InputError(f"--family {family}: it is 4 or 6")


def _traits(declared: list[str]) -> Traits:
    import platform

    from testbed.errors import InputError
    from testbed.kernels.running import kernel_config
    from testbed.path.predict import DECLARABLE, traits_of
    from testbed.probing import find
    from testbed.yamlfile import did_you_mean

    for name in declared:
        if name not in DECLARABLE:
            hint = did_you_mean(name, list(DECLARABLE)) or f"; there is {', '.join(DECLARABLE)}"
            raise InputError(f"--declare {name}: no such property of a kernel{hint}")
    config = kernel_config()
    known = [name for name in DECLARABLE if find([name]).has(name)]
    limit = find(["vxlan"]).values.get("vxlan.tso_max_size")
    text = config.decode() if config else None
    return traits_of(platform.release(), text, [*declared, *known], limit if isinstance(limit, int) else None)


def changed(topology: TopologySpec, changes: list[str]) -> TopologySpec:
    """The topology with --set's values on top. The later wins."""
    from testbed.lab.lab import settings_of
    from testbed.topology.assignment import parse_assignment

    for change in changes:
        reference, settings = parse_assignment(change, f"--set {change}")
        topology = topology.with_settings({reference: settings_of(f"--set {reference}", settings)})
    return topology


def _print(hops: list[Hop], checked: list[Checked] | None, json: bool) -> None:
    import json as json_

    from testbed.path.rendering import as_record, as_table

    if json:
        typer.echo(json_.dumps(as_record(hops, checked), indent=1))
    else:
        typer.echo(as_table(hops, checked), nl=False)
