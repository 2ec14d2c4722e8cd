"""Progress on standard error, if that is a terminal: a bar, or a table of the last iterations.

bar           a bar over positions, or over the bytes of an input
live_table    the last rows of a training run
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chainfold.cli.console import console, is_quiet, notice, say, table

if TYPE_CHECKING:
    from rich.console import Console

    from chainfold.readers.progress import InputProgress


_ROWS = 12  # in a live table


class Bar:
    """A bar, and the number of positions beside it. Where that has no total, the bar shows bytes that are read."""

    def __init__(self, terminal: Console, name: str, total: int | None, hidden: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}")
        times = TimeElapsedColumn(), TimeRemainingColumn()
        self.bars = Progress(*columns, *times, console=terminal, transient=True, disable=hidden)
        self._task = self.bars.add_task(name, total=total, text="")
        self._total = total
        self._size: int | None = None
        self._by_bytes = False
        self._bytes = self._positions = 0
        self._begin = time.perf_counter()

    def advance(self, positions: int) -> None:
        """More positions are done; after the last the count begins anew."""
        ended = self._total is not None and self._positions >= self._total
        self._positions = positions + (0 if ended else self._positions)
        self._show()

    def reading(self) -> InputProgress:
        """For the readers and encoders of inputs."""
        from chainfold.readers.progress import InputProgress

        return InputProgress(total=self._set_size, phase=self._set_phase, read=self._read, positions=self.advance)

    def _set_size(self, size: int | None) -> None:
        self._size = size

    def _set_phase(self, name: str, positions: int | None) -> None:
        self._by_bytes, self._total = positions is None, positions
        self._begin, self._positions = time.perf_counter(), 0
        self.bars.reset(self._task, description=name, total=self._size if positions is None else positions, text="")

    def _read(self, size: int) -> None:
        self._bytes += size
        self._show()

    def _show(self) -> None:
        rate = self._positions / max(time.perf_counter() - self._begin, 1e-9)
        size = f"{self._bytes / 1e6:,.1f} MB read " if self._bytes else ""
        text = f"{size}{self._positions:>13,} positions {rate:>9,.0f}/s"
        self.bars.update(self._task, completed=self._bytes if self._by_bytes else self._positions, text=text)


@contextmanager
def bar(name: str = "", total: int | None = None, hidden: bool = False) -> Iterator[Bar]:
    """A bar over a number of positions, if it is known."""
    terminal = console(stderr=True)
    made = Bar(terminal, name, total, hidden or is_quiet() or not terminal.is_terminal)
    with made.bars:
        yield made


class LiveTable:
    """Rows of a run: a table of the last on a terminal, or a line for each."""

    def __init__(self, headings: Sequence[str], verbose: bool) -> None:
        self._headings, self._verbose = headings, verbose
        self._rows: list[Sequence[str]] = []

    def add(self, *cells: str) -> None:
        self._rows = [*self._rows, cells][-_ROWS:]
        if self._verbose and not is_quiet():
            named = zip(self._headings, cells, strict=True)
            say("  ".join(f"{heading} {cell}" for heading, cell in named if cell))

    def notice(self, sentence: object) -> None:
        """A line above the table."""
        notice(sentence)

    def view(self, foot: Any) -> Any:
        from rich.console import Group

        return Group(table(self._headings, self._rows), foot) if self._rows else foot


@contextmanager
def live_table(headings: Sequence[str], verbose: bool, foot: Callable[[], Any]) -> Iterator[LiveTable]:
    """A table that is drawn four times a second, over `foot`; with `verbose`, a line for each row instead."""
    from rich.live import Live

    terminal, shown = console(stderr=True), LiveTable(headings, verbose)
    if is_quiet() or not terminal.is_terminal or verbose:
        yield shown
        return
    how: dict[str, Any] = {"console": terminal, "transient": True, "refresh_per_second": 4}
    with Live(**how, get_renderable=lambda: shown.view(foot())):
        yield shown
