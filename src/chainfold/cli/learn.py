"""`chainfold learn`: a model from rows as they arrive, in one pass and bounded memory."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import notice, report
from chainfold.cli.input_options import INPUT, Inputs, check_raw
from chainfold.cli.parameters import grouped
from chainfold.cli.progress import LiveTable, live_table
from chainfold.cli.training_options import (
    ONLINE_SETTINGS,
    RUN,
    RUN_PANEL,
    ModelOutput,
    RunOptions,
    beside,
    check_model_output,
)
from chainfold.system import signals
from chainfold.system.machine import resident

if TYPE_CHECKING:
    from chainfold.model.model import Model
    from chainfold.training.online.prequential import Interval
    from chainfold.training.online.run import OnlineRun
    from chainfold.training.online.trainer import BatchResult

_HEADINGS = ("positions", "accuracy", "accuracy so far", "-log likelihood")

Prequential = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A CSV file to write: accuracy and loss of every 10,000 positions, tagged before they are trained on.",
    ),
]
SaveEvery = Annotated[
    int, typer.Option(metavar="ROWS", help="Save the unfinished run after this many rows.", rich_help_panel=RUN_PANEL)
]


@grouped(spec=INPUT.without("labels", "weight", "min_count"), settings=ONLINE_SETTINGS, run=RUN.without("save_every"))
def learn(
    inputs: Inputs,
    output: ModelOutput,
    spec: dict[str, Any],
    settings: dict[str, Any],
    run: RunOptions,
    save_every: SaveEvery = 100_000,
    prequential: Prequential = None,
    as_json: options.Json = False,
) -> None:
    """Train a model on rows as they arrive, in one pass and bounded memory, by AdaGrad with hashed attributes.

    The state of an unfinished run is kept in MODEL.run and removed at the end.
    Rows of a pipe that came after it was last saved are lost if the run is killed.

    Example: chainfold learn log.csv --one-sequence --prequential accuracy.csv -o log.model
    """
    from chainfold.chain.any_chain import is_chain
    from chainfold.training.loop import only_label

    begin = time.perf_counter()
    check_model_output(output)
    state = beside(output, "run")
    options.hold([output, state, prequential], inputs, spec.get("template"))
    run.check(state)
    if is_chain(inputs):
        check_raw(inputs[0], spec)
    model = _learnt(inputs, output, spec, settings, run, save_every, prequential)
    if model.layout.n_labels == 1:
        notice(f"{only_label(model.vocabulary)}: the model can give no other.")
    facts = _facts(output, model, time.perf_counter() - begin)
    report(facts, _rows(facts), facts["model"], as_json)


def _learnt(
    inputs: list[str],
    output: Path,
    spec: Any,
    settings: dict[str, Any],
    options: RunOptions,
    save_every: int,
    prequential: Path | None,
) -> Model:
    """Run until the input ends; leave the verb if a signal comes first."""
    from chainfold.training.online.adagrad import OnlineSettings
    from chainfold.training.online.arriving import arriving
    from chainfold.training.online.prequential import IntervalTable
    from chainfold.training.online.run import OnlineRun, Stopped, StopRequested

    with ExitStack() as stack:
        speed = _Speed()
        shown = stack.enter_context(live_table(_HEADINGS, options.verbose, speed.line))
        written: list[IntervalTable] = []
        run = OnlineRun(
            output,
            OnlineSettings(**settings),
            save_every=save_every,
            tell=lambda interval: _show(interval, shown, written),
            progress=speed.add,
            stop=lambda: requested(),
        )
        if options.resume and run.state_path.exists():
            _restore(run, shown)
        if prequential is not None:
            written.append(stack.enter_context(IntervalTable(prequential, run.prequential.told)))
        requested = stack.enter_context(signals.interruptible(run.leave_if_waiting))
        try:
            return run.run(run.wait(lambda: arriving(inputs, piped=run.piped, **spec)))
        except StopRequested:
            shown.notice("interrupted before the first row; nothing has changed.")
        except Stopped as stopped:
            shown.notice(stopped)
        raise typer.Exit(signals.exit_code())


def _restore(run: OnlineRun, shown: LiveTable) -> None:
    run.restore()
    lost = 0 if run.piped is None else run.lost
    if lost == 0:
        after = ""
    elif lost == 1:
        after = "; the row that was read from the pipe after it is lost"
    else:
        rows = "any rows" if lost is None else f"the {lost:,} rows"
        after = f"; {rows} that were read from the pipe after it are lost"
    shown.notice(f"resuming after row {run.rows:,}{after}.")


def _show(interval: Interval, shown: LiveTable, written: list[Any]) -> None:
    accuracies = f"{interval.accuracy:.2%}", f"{interval.running_accuracy:.2%}"
    shown.add(f"{interval.positions:,}", *accuracies, f"{interval.loss:.4f}")
    for table in written:
        table.add(interval)


class _Speed:
    """Positions, and positions per second."""

    def __init__(self) -> None:
        self._begin, self._positions = time.perf_counter(), 0

    def add(self, learnt: BatchResult) -> None:
        self._positions += learnt.positions

    def line(self) -> str:
        rate = self._positions / (time.perf_counter() - self._begin)
        return f"{self._positions:,} positions, {rate:,.0f} per second"


def _facts(output: Path, model: Model, seconds: float) -> dict[str, Any]:
    import numpy as np

    record, vocabulary = model.training, model.vocabulary
    assert vocabulary is not None, "it was made from names"
    return {
        "model": str(output),
        "bytes": output.stat().st_size,
        "algorithm": record["algorithm"],
        "online": True,
        "positions": record["positions"],
        "batches": record["batches"],
        "approximate_batches": record["approximate"],
        "prequential_accuracy": record["accuracy"],
        "prequential_loss": record["loss"],
        "labels": model.layout.n_labels,
        "attributes": int(np.count_nonzero(vocabulary.counts)),
        "weights": model.layout.size,
        "seconds": seconds,
        "peak_rss_mb": resident() / 1e6,
    }


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("algorithm", f"{facts['algorithm']}, online"),
        ("positions", f"{facts['positions']:,}"),
        ("batches (approximate)", f"{facts['batches']:,} ({facts['approximate_batches']:,})"),
        ("accuracy before training", f"{facts['prequential_accuracy']:.2%}"),
        ("-log likelihood before training", f"{facts['prequential_loss']:.4f} per position"),
        ("labels", f"{facts['labels']:,}"),
        ("hashed attributes", f"{facts['attributes']:,}"),
        ("weights", f"{facts['weights']:,}"),
        ("size", f"{facts['bytes'] / 1e6:,.2f} MB"),
        ("seconds", f"{facts['seconds']:,.2f}"),
        ("peak memory", f"{facts['peak_rss_mb']:,.0f} MB"),
    ]
