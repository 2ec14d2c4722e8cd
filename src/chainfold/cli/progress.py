"""Bars on standard error while something long is done, if that is a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chainfold.cli.console import console
from chainfold.readers.progress import InputProgress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


_NOTHING_DONE: dict[str, Any] = {"done": 0, "rate": 0.0}


@contextmanager
def watched() -> Iterator[InputProgress]:
    """A bar over the positions, or over the bytes of the input while it is not known how many there are."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[megabytes]:,.1f} MB read"),
        TextColumn("{task.fields[done]:>13,} positions {task.fields[rate]:>9,.0f}/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    terminal = console(stderr=True)
    with Bars(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bars:
        task = bars.add_task("", total=None, megabytes=0.0, **_NOTHING_DONE)
        watch = _Watch(bars, task)
        yield InputProgress(total=watch.total, phase=watch.phase, read=watch.read, positions=watch.positions)


class _Watch:
    """What the bar shows."""

    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars, self._task = bars, task
        self._size: int | None = None
        self._bytes = 0

    def total(self, size: int | None) -> None:
        self._size = size

    def phase(self, name: str, positions: int | None) -> None:
        self._by_bytes = positions is None
        self._begin, self._done = time.perf_counter(), 0
        total, shown = self._size if self._by_bytes else positions, {"megabytes": self._bytes / 1e6, **_NOTHING_DONE}
        self._bars.reset(self._task, description=name, total=total, **shown)

    def read(self, size: int) -> None:
        self._bytes += size
        self._bars.update(self._task, megabytes=self._bytes / 1e6)
        if self._by_bytes:
            self._bars.update(self._task, completed=self._bytes)

    def positions(self, count: int) -> None:
        self._done += count
        self._bars.update(self._task, done=self._done, rate=self._done / (time.perf_counter() - self._begin))
        if not self._by_bytes:
            self._bars.update(self._task, completed=self._done)
