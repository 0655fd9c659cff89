"""The `testbed` command. Each module here adds the commands of one noun: parse, call, print."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module

import typer
from typer.exceptions import TyperException

from testbed import __version__
from testbed.cli.help import Group
from testbed.errors import TestbedError, printable

# In the order in which --help lists them. A module offers `register(app)` and
# imports what is heavy inside its commands: `testbed --help` answers at once.
MODULES = ("run", "report", "lab", "topology", "path", "probe", "experiment", "kernel", "watch", "schema")

app = typer.Typer(
    name="testbed",
    cls=Group,
    help="Prove what a change to the Linux network stack does.",
    invoke_without_command=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line. Every failure that a user can cause is one line on stderr."""
    try:
        sys.exit(app(prog_name="testbed", standalone_mode=False) or 0)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "testbed"
        # Typer hands on pydantic's words for a value that is none of an enumeration's.
        message = error.format_message().replace("Value error, ", "").rstrip(".")
        sys.exit(_fail(f"{message} (see {command} --help)", error.exit_code))
    except TestbedError as error:
        sys.exit(_fail(str(error), error.exit_status, error.shown))
    except KeyboardInterrupt:
        sys.exit(_fail("interrupted", 130))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:  # the last place that can make one line of it
        if os.environ.get("TESTBED_TRACEBACK"):
            raise
        sys.exit(_fail(_words(error), 1))


def _words(error: Exception) -> str:
    """Message for an unexpected error: a full disk or unusable file is the user's, the rest a defect."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        return f"output: {error.strerror}"
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"a defect of testbed: {what} (TESTBED_TRACEBACK=1 shows where)"


def _fail(message: str, status: int, shown: str = "") -> int:
    print(f"testbed: {printable(' '.join(message.split()))}", file=sys.stderr)
    if shown:
        print(shown, file=sys.stderr)
    return status


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"testbed {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _module in MODULES:
    import_module(f"testbed.cli.{_module}").register(app)
