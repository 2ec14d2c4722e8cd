"""`chainfold train --online`: a model from what arrives, once and in constant memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chainfold.cli.console import console, say, table
from chainfold.cli.interrupt import interruptible
from chainfold.errors import ChainfoldError
from chainfold.escape import visible
from chainfold.system import signals as stopping
from chainfold.system.machine import resident

if TYPE_CHECKING:
    from chainfold.model.model import Model
    from chainfold.training.loop import Every
    from chainfold.training.online.prequential import Interval
    from chainfold.training.online.trainer import Learnt

_SETTINGS = ("rate", "batch", "c2", "forget")
_ROWS = 12  # intervals in the live table
_HEADINGS = ("positions", "tagged right", "until then", "-log likelihood")


def learn(
    inputs: list[str],
    output: Path,
    how: dict[str, Any],
    algorithm: str | None,
    settings: dict[str, Any],
    *,
    pointless: list[str],
    every: Every,
    prequential: Path | None,
    resume: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Learn from the inputs as they arrive, and tell what came of it. `pointless` names options given in vain."""
    from chainfold.training.loop import only_label
    from chainfold.training.online.arriving import arriving
    from chainfold.training.online.prequential import Table
    from chainfold.training.online.run import Asked, OnlineRun, Stopped
    from chainfold.training.online.weights import OnlineSettings

    begin = time.perf_counter()
    _check(algorithm, [name.replace("_", "-") for name in settings], pointless)
    with ExitStack() as stack:
        shown = stack.enter_context(_shown(verbose))
        run = OnlineRun(
            output,
            OnlineSettings(**settings),
            every=every,
            tell=shown.interval,
            progress=shown.learnt,
            stop=lambda: asked(),
        )
        if resume and run.state_path.exists():
            run.restore()
            shown.say(f"chainfold: going on after {run.learnt:,} positions.")
            if run.torn:
                shown.say(
                    f"chainfold: the last {run.torn:,} bytes of {run.journal_path} are a record that was not written "
                    f"to its end; they are left out."
                )
        if prequential is not None:
            shown.tell(stack.enter_context(Table(prequential, run.learnt)).add)
        asked = stack.enter_context(interruptible(run.leave_if_waiting))
        try:
            model = run.run(run.wait(lambda: arriving(inputs, piped=run.piped, **how)))
        except Asked:
            shown.say("chainfold: interrupted before there was anything to learn from; nothing has changed.")
            raise typer.Exit(stopping.code()) from None
        except Stopped as stopped:
            shown.say(f"chainfold: {stopped}")
            raise typer.Exit(stopping.code()) from None
    if model.layout.n_labels == 1:
        say(f"chainfold: {only_label(model.vocabulary)}: the model can give no other.")
    _tell(_facts(output, model, time.perf_counter() - begin), as_json)


def _check(algorithm: str | None, settings: list[str], pointless: list[str]) -> None:
    if algorithm not in (None, "adagrad"):
        raise ChainfoldError(f"what arrives is learnt from by adagrad, not by {algorithm}; leave --algorithm out.")
    for name in [*pointless, *settings]:
        if name not in _SETTINGS:
            known = ", ".join(f"--{one}" for one in _SETTINGS)
            raise ChainfoldError(f"--{name} means nothing to --online, whose settings are {known}; leave it out.")


class _Shown:
    """What is seen of a run while it goes on."""

    def __init__(self, verbose: bool) -> None:
        self.live: Any = None
        self._verbose = verbose
        self._begin, self._positions = time.perf_counter(), 0
        self._rows: list[tuple[str, ...]] = []
        self._also: list[Callable[[Interval], None]] = []

    def tell(self, other: Callable[[Interval], None]) -> None:
        """Tell somebody else of each interval too."""
        self._also.append(other)

    def say(self, text: str) -> None:
        """A line above what is shown."""
        if self.live is None:
            say(text)
        else:
            self.live.console.print(visible(text))

    def learnt(self, learnt: Learnt) -> None:
        self._positions += learnt.positions

    def interval(self, interval: Interval) -> None:
        row = f"{interval.positions:,}", f"{interval.accuracy:.2%}", f"{interval.running_accuracy:.2%}"
        self._rows = [*self._rows, (*row, f"{interval.loss:.4f}")][-_ROWS:]
        for tell in self._also:
            tell(interval)
        if self._verbose:
            named = zip(_HEADINGS, self._rows[-1], strict=True)
            say("  ".join(f"{name} {value}" for name, value in named))

    def view(self) -> Any:
        """For a terminal."""
        from rich.console import Group

        speed = self._positions / (time.perf_counter() - self._begin)
        line = f"{self._positions:,} positions learnt from, {speed:,.0f} a second"
        return Group(table(_HEADINGS, self._rows), line) if self._rows else line


@contextmanager
def _shown(verbose: bool) -> Iterator[_Shown]:
    """On a terminal, a table of the last intervals."""
    from rich.live import Live

    terminal, shown = console(stderr=True), _Shown(verbose)
    if not terminal.is_terminal or verbose:
        yield shown
        return
    with Live(console=terminal, transient=True, refresh_per_second=4, get_renderable=shown.view) as shown.live:
        yield shown


def _facts(output: Path, model: Model, seconds: float) -> dict[str, Any]:
    import numpy as np

    record, vocabulary = model.training, model.vocabulary
    assert vocabulary is not None, "it was made of names"
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


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
        return
    rows = [
        ("algorithm", f"{facts['algorithm']}, online"),
        ("positions", f"{facts['positions']:,}"),
        ("batches, and those not exact", f"{facts['batches']:,}, {facts['approximate_batches']:,}"),
        ("tagged right before they were learnt from", f"{facts['prequential_accuracy']:.2%}"),
        ("-log likelihood a position, likewise", f"{facts['prequential_loss']:.4f}"),
        ("labels", f"{facts['labels']:,}"),
        ("attributes that occurred, by their hash", f"{facts['attributes']:,}"),
        ("weights", f"{facts['weights']:,}"),
        ("size", f"{facts['bytes'] / 1e6:,.2f} MB"),
        ("seconds", f"{facts['seconds']:,.2f}"),
        ("peak memory", f"{facts['peak_rss_mb']:,.0f} MB"),
    ]
    console().print(table((), rows, facts["model"]))
