"""Runs the pieces of an experiment one after another, stores each result in the ledger, and shows the progress."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from chainfold.cli.console import console, say
from chainfold.system import signals
from chainfold.system.outputs import claimed
from experiments.ledger import Ledger, Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_SETTLED = 10.0  # planned seconds after which the pace is known


@dataclass(frozen=True)
class RunPiece:
    """A part of an experiment that is measured once; an interrupted run continues with the next piece."""

    key: str  # as "scaling/2-few/fb-log/memory/1000000"
    title: str  # displayed while it runs
    seconds: float  # estimate
    run: Callable[[Mapping[str, Result]], Result]  # from the results of earlier pieces, by key


def run_pieces(
    pieces: Sequence[RunPiece],
    ledger: Ledger,
    display: Display,
    finished: Callable[[str, Result], None] = lambda key, result: None,
) -> None:
    """Run the pieces, store each result, and call `finished` with it. One process at a time writes to a ledger."""
    ledger.path.parent.mkdir(parents=True, exist_ok=True)
    with claimed([ledger.path], []):
        ledger.begin([piece.key for piece in pieces])
        display.total(sum(piece.seconds for piece in pieces))
        for piece in pieces:
            with display.doing(piece.title, piece.seconds):
                result = piece.run(ledger.pieces)
            ledger.add(piece.key, result)
            finished(piece.key, result)


def resumable(command: Callable[..., None]) -> Callable[..., None]:
    """A command that says how to continue when it is interrupted."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            say("chainfold: interrupted; the same command, without --fresh, continues with the next piece.")
            raise typer.Exit(signals.exit_code()) from None

    return run


class Display:
    """A progress bar over the estimated seconds on stderr; without a terminal, one line for each piece."""

    def __init__(self, bars: Progress, terminal: Console) -> None:
        self._bars, self._terminal = bars, terminal
        self._task = bars.add_task("", total=None, left="")
        self._title = ""
        self._begin, self._total, self._done = time.monotonic(), 0.0, 0.0

    def total(self, seconds: float) -> None:
        """The estimated seconds of all pieces."""
        self._begin, self._total = time.monotonic(), seconds
        self._bars.reset(self._task, total=seconds)

    @contextmanager
    def doing(self, title: str, seconds: float) -> Iterator[None]:
        """Show the bar during a piece."""
        left, self._title = self._left(), title
        self._bars.update(self._task, description=title, left=left)
        if not self._terminal.is_terminal:
            self._terminal.print(f"{left}: {title}", soft_wrap=True)
        self._bars.start()
        try:
            yield
        finally:
            self._bars.stop()  # what is printed between pieces does not meet the bar
        self._done += seconds
        self._bars.advance(self._task, seconds)

    def detail(self, text: str) -> None:
        """Show what the current piece is doing."""
        self._bars.update(self._task, description=f"{self._title}: {text}")

    def _left(self) -> str:
        """The estimated time that is left, at the pace so far."""
        pace = (time.monotonic() - self._begin) / self._done if self._done > _SETTLED else 1.0
        seconds = pace * max(self._total - self._done, 0.0)
        return f"about {seconds / 60:.0f} min left" if seconds > 100 else f"about {math.ceil(seconds / 10) * 10} s left"


def new_display() -> Display:
    """A display on stderr."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    columns = (
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
    )
    terminal = console(stderr=True)
    bars = Progress(*columns, console=terminal, transient=True, expand=True, disable=not terminal.is_terminal)
    return Display(bars, terminal)
