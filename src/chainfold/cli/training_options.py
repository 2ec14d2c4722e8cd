"""The options of `train` and `learn`: settings of the algorithms, and of runs that can be resumed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chainfold.cli import options
from chainfold.cli.console import notice
from chainfold.cli.parameters import Group, Parameter
from chainfold.errors import BadFile, ChainfoldError
from chainfold.system.outputs import STANDARD, check_outputs

if TYPE_CHECKING:
    from chainfold.training.loop import SaveInterval

ALGORITHM, _STEPS, RUN_PANEL = "Algorithm", "Settings of algorithms", "Run"

ModelOutput = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model to write.")]


class Setting(NamedTuple):
    """A setting of training algorithms."""

    kind: type
    algorithms: str  # that use it, with spaces between them
    help: str
    default: str = ""  # where it is the same for all algorithms
    flag: str = ""

    def parameter(self, panel: str = _STEPS) -> Parameter:
        default = f" Default: {self.default}." if self.default else ""
        users = f" ({', '.join(self.algorithms.split())})" if self.algorithms != _ALL else ""
        text = f"{self.help}{users}.{default}"
        flags = (self.flag,) if self.flag else ()
        metavar = "K" if self.kind is int else None
        return Parameter(
            Annotated[self.kind | None, typer.Option(*flags, metavar=metavar, help=text, rich_help_panel=panel)]
        )


_DESCENT, _MISTAKES = "sgd adagrad adam", "ap pa arow"
_ALL = f"lbfgs {_DESCENT} {_MISTAKES}"
SETTINGS = {
    "c1": Setting(float, "lbfgs", "Weight of the L1 penalty c1·‖w‖₁", "0"),
    "c2": Setting(float, f"lbfgs {_DESCENT}", "Weight of the L2 penalty c2·‖w‖²", "1"),
    "max_iterations": Setting(int, _ALL, "Largest number of iterations or epochs; lbfgs has no limit by default"),
    "seed": Setting(int, f"{_DESCENT} {_MISTAKES}", "Seed of the order of batches and sequences", "0"),
    "epsilon": Setting(float, _ALL, "Stop when the gradient, or the loss, is below this"),
    "period": Setting(int, f"lbfgs {_DESCENT}", "Number of iterations over which --delta is measured", "10"),
    "delta": Setting(float, f"lbfgs {_DESCENT}", "Stop when the objective falls by less than this share", "1e-5"),
    "num_memories": Setting(int, "lbfgs", "Number of past steps that approximate the Hessian", "6"),
    "linesearch": Setting(str, "lbfgs", "MoreThuente, Backtracking or StrongBacktracking", "MoreThuente"),
    "max_linesearch": Setting(int, "lbfgs", "Largest number of evaluations in a line search", "20"),
    "rate": Setting(float, _DESCENT, "Learning rate"),
    "decay": Setting(float, _DESCENT, "Decay of the learning rate with the epochs"),
    "batch": Setting(int, _DESCENT, "Number of positions in a batch", "256"),
    "type": Setting(int, "pa", "0, 1 (bounded by --c) or 2 (softened)", "1"),
    "c": Setting(float, "pa", "Aggressiveness", "1", "--c"),
    "error_sensitive": Setting(
        bool, "pa", "The step grows with the number of errors", "yes", "--error-sensitive/--no-error-sensitive"
    ),
    "averaging": Setting(bool, "ap pa", "Average the weights", "yes", "--averaging/--no-averaging"),
    "variance": Setting(float, "arow", "Initial variance of a weight", "1"),
    "gamma": Setting(float, "arow", "A larger value makes smaller steps", "1"),
    "longest": Setting(int, _MISTAKES, "Cut sequences into pieces of this many positions", "4096"),
}
_FIRST = ("c1", "c2", "max_iterations", "seed")  # beside --algorithm


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


ALGORITHM_SETTINGS = Group(
    {name: setting.parameter(ALGORITHM if name in _FIRST else _STEPS) for name, setting in SETTINGS.items()}, _given
)
_ONLINE = {
    "rate": Setting(float, _ALL, "Learning rate", "0.3"),
    "batch": Setting(int, _ALL, "Largest number of positions in a step", "256"),
    "c2": Setting(float, _ALL, "Weights shrink by the factor e^-c2 over a million positions", "0"),
    "forget": Setting(
        float, _ALL, "Gradients count half after this many positions, to follow drift", "they count fully"
    ),
}
ONLINE_SETTINGS = Group({name: setting.parameter(ALGORITHM) for name, setting in _ONLINE.items()}, _given)


@dataclass(frozen=True)
class RunOptions:
    """A run that is saved now and then, and can be resumed."""

    save_every: Annotated[
        str,
        typer.Option(
            metavar="K",
            help="Save the unfinished run after K iterations, or a time: 30s, 5m, 1h.",
            rich_help_panel=RUN_PANEL,
        ),
    ] = "1m"
    resume: Annotated[bool, typer.Option("--resume", help="Continue the saved run.", rich_help_panel=RUN_PANEL)] = False
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the saved run.", rich_help_panel=RUN_PANEL)] = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Write a line for each iteration to stderr.", rich_help_panel=RUN_PANEL),
    ] = False

    @property
    def every(self) -> SaveInterval:
        from chainfold.training.loop import SaveInterval

        return SaveInterval(*options.parse_interval("save_every", self.save_every, "iterations"))

    def check(self, state: Path) -> None:
        """Raise rather than discard an unfinished run that nobody asked to discard."""
        if self.resume and self.fresh:
            raise ChainfoldError("give --resume or --fresh, not both.")
        if state.exists() and not self.resume and not self.fresh:
            raise ChainfoldError(
                f"{state} holds an unfinished run; continue it with --resume, discard it with --fresh."
            )
        if self.resume and not state.exists():
            notice("there is no unfinished run to resume; a new one begins.")


RUN = Group.of(RunOptions)


def check_model_output(output: Path) -> None:
    """Raise unless a model can be written there."""
    if str(output) == STANDARD:
        raise BadFile(output, "a model cannot be written to standard output; name a file.")
    check_outputs([output], [])  # it has a name, to which suffixes can be added


def beside(output: Path, suffix: str) -> Path:
    """A file of the run of a model."""
    return output.with_name(f"{output.name}.{suffix}")
