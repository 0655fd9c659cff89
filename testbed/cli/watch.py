"""testbed watch, sizes: what crosses the devices of a lab that is up."""

from __future__ import annotations

import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testbed.cli.values import seconds
from testbed.errors import InputError

if TYPE_CHECKING:
    from testbed.evidence.live import View
    from testbed.evidence.sizes import SizeSource
    from testbed.records.round import PacketSize

LabName = Annotated[str, typer.Argument(metavar="LAB", help="The lab's name, as `testbed ls` shows it.")]
Collector = Annotated[str, typer.Option(help="Source of packet sizes: auto, bpf or af_packet.")]

WITHOUT_ROOT = "`plan`, `check`, `graph`, `schema` and `report` work without"


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("watch")(watch)
    app.command("sizes")(sizes)


def watch(
    lab: LabName,
    interval: Annotated[
        float, typer.Option(parser=seconds, metavar="TIME", help="Time between two readings: 1s, 500ms.")
    ] = 1.0,
    collector: Collector = "auto",
) -> None:
    """Show rates and packet sizes of every device, live, until Ctrl-C."""

    from testbed.evidence.live import looks
    from testbed.lab.named import attached
    from testbed.privilege import need_root

    need_root("watch", WITHOUT_ROOT)
    with attached(lab) as live, closing(_source(collector)) as source, suppress(KeyboardInterrupt):
        show = _Screen(live.name or lab) if sys.stdout.isatty() else _Lines()
        with show:
            for views in looks(live, source, interval):
                show.show(views)


def sizes(
    lab: LabName,
    duration: Annotated[
        float, typer.Option("--for", parser=seconds, metavar="TIME", help="How long to count: 10s, 1m.")
    ] = 10.0,
    collector: Collector = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print once how many packets of each size cross each device."""
    import json as json_

    from testbed.evidence.live import looks
    from testbed.lab.named import attached
    from testbed.privilege import need_root

    need_root("sizes", WITHOUT_ROOT)
    with attached(lab) as live, closing(_source(collector)) as source:
        views = next(looks(live, source, duration))
        record = {
            "lab": live.name,
            "seconds": views[0].seconds if views else duration,
            "collector": source.name,
            "lost": source.lost(),
            "packet_sizes": [_as_json(size) for view in views for size in view.sizes],
        }
    if json:
        typer.echo(json_.dumps(record, indent=1))
        return
    for view in views:
        typer.echo(_histogram(view))
    if record["lost"]:
        typer.echo(f"{record['lost']} packets lost by the collector", err=True)


def _histogram(view: View) -> str:
    from testbed.evidence.live import bar

    title = f"{view.reference} {view.direction}: {view.packets} packets, {view.octets} bytes"
    rows = [
        f"  {size.size:>8} {size.packets:>10}  {_gso(size.gso_size, size.gso_segs, size.nr_frags):<26}"
        f" {size.packets * size.size / view.octets:7.2%} {bar(size.packets * size.size / view.octets)}"
        for size in view.sizes
    ]
    return "\n".join([title, *rows])


def _gso(gso_size: int, gso_segs: int, nr_frags: int | None) -> str:
    parts = [f"gso {gso_size} x {gso_segs}"] if gso_size else []
    return ", ".join(parts + ([f"{nr_frags} frags"] if nr_frags else []))


class _Screen:
    """The terminal, redrawn in place."""

    def __init__(self, lab: str) -> None:
        from rich.live import Live

        self._lab = lab
        self._live = Live(auto_refresh=False)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, views: list[View]) -> None:
        from rich.table import Table

        from testbed.evidence.live import HEADER, RIGHT, table

        drawn = Table(title=f"{self._lab} (Ctrl-C ends)", box=None)
        for index, name in enumerate(HEADER):
            drawn.add_column(name, justify="right" if index in RIGHT else "left", no_wrap=True)
        for row in table(views):
            drawn.add_row(*row)
        self._live.update(drawn, refresh=True)


class _Lines:
    """A pipe: one table after the other."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, views: list[View]) -> None:
        from testbed.evidence.live import HEADER, RIGHT, table
        from testbed.text_columns import aligned

        print("\n".join(aligned([HEADER, *table(views)], RIGHT)), "\n", flush=True)


def _source(collector: str) -> SizeSource:
    from typing import get_args

    from testbed.evidence.collect import CollectorName
    from testbed.evidence.collectors import size_source

    for name in get_args(CollectorName):
        if name == collector and (source := size_source(name)[0]):
            return source
    raise InputError(f"--collector {collector}: expected auto, bpf or af_packet")


def _as_json(size: PacketSize) -> dict[str, Any]:
    """A live row has no warm-up seconds."""
    from msgspec import to_builtins

    return {name: value for name, value in to_builtins(size).items() if name != "measured_packets"}
