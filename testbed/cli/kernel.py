"""testbed kernel fetch, build, list, show, boot, rm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.help import Group
from testbed.cli.values import seconds
from testbed.errors import InputError, MissingCapability

if TYPE_CHECKING:
    from testbed.kernels.build import Built
    from testbed.kernels.cache import BuiltKernel

Name = Annotated[
    str, typer.Argument(metavar="KERNEL", help="A name of `kernel list`, or a version such as 7.3.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    kernel = typer.Typer(
        name="kernel",
        cls=Group,
        help="Fetch, build and boot kernels.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    kernel.command("fetch")(fetch)
    kernel.command("build")(build)
    kernel.command("list")(list_)
    kernel.command("show")(show)
    kernel.command("boot")(boot)
    kernel.command("rm")(rm)
    app.add_typer(kernel, name="kernel")


def fetch(
    version: Annotated[str, typer.Argument(help="7.3.4, the start of a version (6.12), or latest.")],
    flavour: Annotated[
        str, typer.Option(help="cloud boots faster; generic has all drivers, and 9P.")
    ] = "cloud",
    suite: Annotated[
        list[str] | None, typer.Option(help="A further suite of the archive to search; repeat for more.")
    ] = None,
) -> None:
    """Fetch a stock kernel from the Debian archive that apt is configured for.

    Every release's own kernels and backports are offered, whatever release runs
    here. apt verifies what it downloads; nothing is installed.
    """
    from testbed.kernels.fetch import fetch as fetch_kernel

    kernel = fetch_kernel(version, flavour, suite or ())
    typer.echo(f"{kernel.name}: Linux {kernel.release}, in {kernel.folder}")


def build(
    tree: Annotated[Path, typer.Option(help="A kernel git tree, folder or source archive; it is only read.")],
    series: Annotated[
        str | None, typer.Option(help="Patches to apply: an mbox, a folder, a range A..B, a message-id.")
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="The revision to build on (HEAD, or a range's start).")
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option(help="A config fragment over the lean config; repeat for more.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of the built kernel.")] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Parallel jobs of make (0: one per CPU).")
    ] = 0,
) -> None:
    """Build a kernel, with a series applied by git am, and the options that labs need.

    The same tree, series, config and compiler build nothing again. What is not
    committed in a git tree is not built.
    """
    from testbed.cli.buildprogress import BuildProgress
    from testbed.kernels.build import Request
    from testbed.kernels.build import build as build_kernel

    with BuildProgress() as progress:
        built = build_kernel(Request(tree, series, base, tuple(config or ()), name, jobs), progress.step)
    _print_built(built)


def list_(json: Json = False) -> None:
    """List the kernels at hand."""
    from testbed.kernels.cache import kernels

    found = kernels()
    if json:
        import json as json_

        rows = [kernel.provenance.model_dump(mode="json", exclude_none=True) for kernel in found]
        typer.echo(json_.dumps(rows, indent=1))
        return
    if not found:
        typer.echo("no kernels yet; get one with: testbed kernel fetch latest")
        return
    width = max(len(kernel.name) for kernel in found)
    for kernel in found:
        patches = len(kernel.provenance.series)
        series = f", {patches} patches" if patches else ""
        typer.echo(f"{kernel.name:{width}}  {kernel.release}  ({kernel.provenance.source}{series})")


def show(
    name: Name,
    probe: Annotated[
        bool, typer.Option(help="Boot a kernel that was not probed yet, to find its capabilities.")
    ] = True,
    json: Json = False,
) -> None:
    """Show where a kernel came from, and what `testbed probe` finds in it."""
    from testbed.guests.kernel_probe import capabilities
    from testbed.kernels.cache import find

    kernel = find(name)
    found = capabilities(kernel) if probe else kernel.capabilities()
    provenance = kernel.provenance
    if json:
        import json as json_

        record = provenance.model_dump(mode="json", exclude_none=True)
        typer.echo(json_.dumps({**record, "probe": found}, indent=1))
        return
    typer.echo(f"{kernel.name}: Linux {kernel.release}, in {kernel.folder}")
    typer.echo(f"from      {_origin(kernel)}")
    typer.echo(f"config    sha256 {provenance.config_sha256}")
    for patch in provenance.series:
        typer.echo(f"patch     {patch.subject}")
    for warning in provenance.warnings:
        typer.echo(f"warning   {warning}")
    if found is None:
        typer.echo("probe     not asked yet")
        return
    values = found.get("values", found)
    for key, value in sorted(values.items()):
        typer.echo(f"probe     {key}: {value}")


def boot(
    name: Name,
    command: Annotated[list[str] | None, typer.Argument(help="The command to run in the guest.")] = None,
    timeout: Annotated[
        float,
        typer.Option(
            parser=seconds,
            metavar="TIME",
            help="Time limit of the command; 6 times as long under software emulation.",
        ),
    ] = 60.0,
    shell: Annotated[bool, typer.Option("--shell", help="A shell instead of a command.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Return at once; the outcome goes to the results folder.")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(help="A new folder, which the guest can write (results/TIME-boot-KERNEL)."),
    ] = None,
    cpus: Annotated[str | None, typer.Option(help="Pin vCPU i to the i-th of these CPUs: 2,3")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Number of vCPUs.")] = 2,
    memory: Annotated[int, typer.Option(min=256, help="Memory in MiB.")] = 1024,
    append: Annotated[
        list[str] | None, typer.Option(help="An argument for the kernel's command line; repeat for more.")
    ] = None,
    accelerator: Annotated[str | None, typer.Option(help="kvm or tcg (default: found by trying).")] = None,
    backend: Annotated[str, typer.Option(help="qemu, or vng (slower; needs virtme-ng).")] = "qemu",
) -> None:
    """Boot a kernel and run a command in it: `testbed kernel boot 7.3 -- uname -r`.

    The guest sees this machine's root file system read-only, and one folder
    that it can write ($TESTBED_RESULTS). Exit status: the command's; 124 when its
    time was over, 125 when the kernel crashed, hung or did not boot.
    """
    from testbed.cli import boot as booting
    from testbed.guests.launch import Size
    from testbed.kernels.cache import find

    if bool(command) == shell:
        raise InputError("kernel boot: name a command after --, or say --shell")
    if shell and background:
        raise InputError("kernel boot: a shell cannot run in the background")
    if backend not in ("qemu", "vng"):
        raise InputError(f"--backend {backend}: qemu or vng")
    kernel = find(name)
    if shell and backend == "vng":
        raise InputError(f"kernel boot: for a shell in virtme-ng: vng --run {kernel.image}")
    folder = booting.results_folder(kernel, results)
    if background:
        booting.in_background(folder)
        return
    size = Size(cores, memory, _cpu_list(cpus), tuple(append or ()))
    argv = command or [os.environ.get("SHELL", "/bin/sh")]
    raise typer.Exit(
        booting.boot(
            kernel, folder, size, argv, timeout, shell=shell, accelerator=accelerator, backend=backend
        )
    )


def rm(
    names: Annotated[list[str], typer.Argument(metavar="KERNEL...", help="Names of `kernel list`.")],
) -> None:
    """Delete kernels from the cache."""
    from testbed.kernels.cache import kernels, remove
    from testbed.yamlfile import did_you_mean

    known = {kernel.name: kernel for kernel in kernels()}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, list(known))
            raise InputError(f"no kernel '{name}'{hint}; `testbed kernel list` names those that are here")
    for name in names:
        remove(known[name])
        typer.echo(f"{name} removed")


def _print_built(built: Built) -> None:
    kernel = built.kernel
    for note in built.notes:
        typer.echo(f"note: {note}", err=True)
    for warning in kernel.provenance.warnings:
        typer.echo(f"warning: {warning}", err=True)
    how = "was built before" if built.reused else f"built in {kernel.provenance.build_s:.0f} s"
    typer.echo(f"{kernel.name}: Linux {kernel.release}, {how}, in {kernel.folder}")


def _origin(kernel: BuiltKernel) -> str:
    provenance = kernel.provenance
    if provenance.source == "archive":
        return ", ".join(f"{package.name} {package.version}" for package in provenance.packages)
    return f"tree {provenance.tree}, on {provenance.base}, {provenance.compiler}"


def _cpu_list(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        cpus = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--cpus {text}: expected numbers such as 2,3") from None
    have = os.sched_getaffinity(0)
    for cpu in cpus:
        if cpu not in have:
            raise MissingCapability(f"--cpus {text}: this machine has no CPU {cpu}")
    return cpus
