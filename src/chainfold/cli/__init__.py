"""The command line: thin verbs over the library.

    train, learn, tag, evaluate, explain, watch, inspect, encode, data, gradient, warm    one each
    import_model, export_model    the verbs import and export
    parameters          groups of options, and the flags by which errors name parameters
    input_options       the options of inputs, one table for all verbs
    training_options    settings of algorithms, and of runs that can be resumed
    options             options that other verbs share
    console, progress   lines and tables; bars and live tables
    warm_steps          small work by which kernels are compiled
    failures            errors as sentences and exit codes
    html                pages for the browser, from a template
    scores, watch_screen, page    output of single verbs

Verbs import nothing heavy until they run, so that `--help` is fast. Begin with `evaluate`, the shortest of the verbs
that read inputs; verbs import the shared modules, and not each other.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Any

import typer

from chainfold.cli.console import quietly
from chainfold.cli.data import data
from chainfold.cli.encode import encode
from chainfold.cli.evaluate import evaluate
from chainfold.cli.explain import explain
from chainfold.cli.export_model import export_model
from chainfold.cli.failures import FAILURES, guarded, report_failure
from chainfold.cli.gradient import gradient
from chainfold.cli.import_model import import_model
from chainfold.cli.inspect import inspect
from chainfold.cli.learn import learn
from chainfold.cli.options import Quiet
from chainfold.cli.parameters import with_option
from chainfold.cli.tag import tag
from chainfold.cli.train import train
from chainfold.cli.warm import warm
from chainfold.cli.watch import watch
from chainfold.escape import legible
from chainfold.system import signals
from chainfold.system.machine import keep_less_free

app = typer.Typer(
    name="chainfold",
    help="Linear-chain conditional random fields on sequences of any length.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_QUIET = (train, learn, tag, evaluate, explain, encode)
_VERBS = (
    *(train, learn, tag, evaluate, explain, watch, inspect, export_model, import_model),
    *(encode, data, gradient, warm),
)
_NAMES = {evaluate: "eval", import_model: "import", export_model: "export"}
for verb in _VERBS:
    shown = with_option("quiet", Quiet, quietly)(verb) if verb in _QUIET else verb
    app.command(_NAMES.get(verb))(guarded(shown))


@app.callback(invoke_without_command=True)
def chainfold(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Linear-chain conditional random fields on sequences of any length."""
    if version:
        from chainfold import __version__

        typer.echo(f"chainfold {__version__}")
        raise typer.Exit


class _Unused(MetaPathFinder):
    """Hides packages that pyarrow and numba import if they can: no verb needs them, and they take half a second.

    `sys.modules[name] = None` would be plainer, but pyarrow's compiled import takes that None for the module.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in ("pandas", "scipy"):
            raise ModuleNotFoundError(f"the command line does not use {name}", name=name)


def main() -> None:
    """Run the command line, and end the process."""
    signals.listen()
    _keep_closed()
    for stream in (sys.stdout, sys.stderr):
        legible(stream)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no verb needs more, and each takes memory
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # as fast, less memory, the same in every run
    keep_less_free()
    sys.meta_path.insert(0, _Unused())
    code: Any = 0
    try:
        app()
    except SystemExit as exited:
        # help is written outside of all verbs
        code = report_failure(exited.__context__) if isinstance(exited.__context__, BrokenPipeError) else exited.code
    except FAILURES as error:
        code = report_failure(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        code = report_failure(error)
    sys.exit(code)


def _keep_closed() -> None:
    """Let no file that is opened later take the place of a standard stream that is closed."""
    with suppress(OSError):  # a file that cannot be opened takes no place
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
