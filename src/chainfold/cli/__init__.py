"""The command line: thin verbs over the library.

Nothing heavy is imported until a verb runs, so that `--help` answers at once, and what no verb needs is not imported
at all. Bad input ends with one sentence on standard error and exit code 2.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Any

import typer

from chainfold import stopping
from chainfold.cli.data import data
from chainfold.cli.demo import demo
from chainfold.cli.encode import encode
from chainfold.cli.engines import engines
from chainfold.cli.evaluate import evaluate
from chainfold.cli.failures import FAILURES, check_room, output_fails, sentence_of, warnings_said
from chainfold.cli.gradient import gradient
from chainfold.cli.inspect import inspect
from chainfold.cli.options import holding
from chainfold.cli.plan import plan
from chainfold.cli.show import abandon, say
from chainfold.cli.tag import tag
from chainfold.cli.train import train
from chainfold.cli.watch import watch
from chainfold.errors import ChainfoldError
from chainfold.plain import legible

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
            with stopping.in_verb(), warnings_said(), holding():
                check_room()
                verb(*arguments, **options)
                if sys.stdout is not None:
                    sys.stdout.flush()
        except ChainfoldError as error:
            say(f"chainfold: {error}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            raise typer.Exit(stopping.interrupted()) from None
        except SystemExit as left:  # how rich leaves where whoever read the output has gone
            raise typer.Exit(0) from left
        except FAILURES as error:
            raise typer.Exit(_failed(error, verb.__name__)) from None

    return run


def _failed(error: Exception, verb: str = "") -> int:
    """Say what went wrong outside of chainfold; the exit code. What standard output does not take goes nowhere."""
    if isinstance(error, BrokenPipeError):  # whoever read it has gone; nothing more can be said to them
        abandon(sys.stdout)
        return 0
    sentence = sentence_of(error, verb)
    if sentence is None:
        raise error
    if output_fails():
        abandon(sys.stdout)
    say(f"chainfold: {sentence}")
    return 2


app.command("train")(guarded(train))
app.command("tag")(guarded(tag))
app.command("eval")(guarded(evaluate))
for verb in (watch, inspect, encode, data, gradient, plan, engines, demo):
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
    """Run the command line, and end the process."""
    stopping.listen()
    _keep_closed()
    for stream in (sys.stdout, sys.stderr):
        legible(stream)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no verb needs more, and each takes memory
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # as fast, less memory, the same in every run
    sys.meta_path.insert(0, _Unneeded())
    code: Any = 0
    try:
        app()
    except SystemExit as left:
        # a page of help is written outside of all verbs
        code = _failed(left.__context__) if isinstance(left.__context__, BrokenPipeError) else left.code
    except FAILURES as error:
        code = _failed(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        code = _failed(error)
    sys.exit(code)


def _keep_closed() -> None:
    """Of the standard streams, those that are closed: no file that is opened later takes their place."""
    with suppress(OSError):  # what cannot be opened takes no place either
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
