"""The command line: thin verbs over the library.

Nothing heavy is imported until a verb runs, so that `--help` answers at once. Bad input ends with one sentence on
standard error and exit code 2.
"""

from __future__ import annotations

import os
import sys

import typer

from chainfold.cli.demo import demo
from chainfold.cli.engines import engines
from chainfold.cli.gradient import gradient
from chainfold.cli.plan import plan
from chainfold.errors import ChainfoldError

app = typer.Typer(
    name="chainfold",
    help="Linear-chain conditional random fields on sequences of any length.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (gradient, plan, engines, demo):
    app.command()(verb)


@app.callback(invoke_without_command=True)
def options(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Linear-chain conditional random fields on sequences of any length."""
    if version:
        from chainfold import __version__

        typer.echo(f"chainfold {__version__}")
        raise typer.Exit


def main() -> None:
    """The entry point of the `chainfold` command."""
    try:
        app()
    except ChainfoldError as error:
        typer.echo(f"chainfold: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("chainfold: interrupted.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
