"""The command line: thin verbs over the library.

Nothing heavy is imported until a verb runs, so that `--help` answers at once, and what no verb needs is not imported
at all. Bad input ends with one sentence on standard error and exit code 2.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any

import typer

from chainfold.cli.data import data
from chainfold.cli.demo import demo
from chainfold.cli.encode import encode
from chainfold.cli.engines import engines
from chainfold.cli.evaluate import evaluate
from chainfold.cli.failures import check_room, output_fails, sentence_of, warnings_said
from chainfold.cli.gradient import gradient
from chainfold.cli.inspect import inspect
from chainfold.cli.paper import paper
from chainfold.cli.plan import plan
from chainfold.cli.tag import tag
from chainfold.cli.train import train
from chainfold.cli.watch import watch
from chainfold.errors import ChainfoldError

app = typer.Typer(
    name="chainfold",
    help="Linear-chain conditional random fields on sequences of any length.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb whose failures are sentences and exit codes."""

    @functools.wraps(verb)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            with warnings_said():
                check_room()
                verb(*arguments, **options)
            if sys.stdout is not None:
                sys.stdout.flush()
        except ChainfoldError as error:
            typer.echo(f"chainfold: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("chainfold: interrupted.", err=True)
            raise typer.Exit(130) from None
        except SystemExit as left:  # how rich leaves where whoever read the output has gone
            raise typer.Exit(0) from left
        except BrokenPipeError:  # whoever read the output has gone; nothing more can be said to them
            _silence()
            raise typer.Exit(0) from None
        except (ImportError, MemoryError, OSError, RuntimeError) as error:
            sentence = sentence_of(error, verb.__name__)
            if sentence is None:
                raise
            if output_fails():
                _silence()
            typer.echo(f"chainfold: {sentence}", err=True)
            raise typer.Exit(2) from None

    return run


def _silence() -> None:
    """Let what is left in the buffer of standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app.command("train")(guarded(train))
app.command("tag")(guarded(tag))
app.command("eval")(guarded(evaluate))
for verb in (watch, inspect, encode, data, gradient, plan, engines, paper, demo):
    app.command()(guarded(verb))


@app.callback(invoke_without_command=True)
def chainfold(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Linear-chain conditional random fields on sequences of any length."""
    if version:
        from chainfold import __version__

        typer.echo(f"chainfold {__version__}")
        raise typer.Exit


class _Unneeded(MetaPathFinder):
    """Says that a package is not installed.

    Where pandas is installed, pyarrow imports it with its first array; numba imports SciPy's linear algebra with its
    first kernel. Both do as well without, no verb needs either, and they take half a second.
    """

    NAMES = frozenset({"pandas", "scipy.linalg"})

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self.NAMES:
            raise ModuleNotFoundError(f"the command line does without {name}", name=name)


def main() -> None:
    """The entry point of the `chainfold` command."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no verb needs more, and each takes memory
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # as fast, less memory, the same in every run
    sys.meta_path.insert(0, _Unneeded())
    try:
        app()
    except KeyboardInterrupt:  # before a verb has begun
        typer.echo("chainfold: interrupted.", err=True)
        sys.exit(130)
