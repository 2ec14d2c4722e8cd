"""`chainfold paper`: the experiments of Ilić et al., measured here, on one page."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli.console import console, say, table
from chainfold.cli.options import parse_size
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.escape import visible
from chainfold.system import signals

if TYPE_CHECKING:
    from chainfold.paper.plan import Result
    from rich.console import Console
    from rich.progress import Progress

_LONGEST = 50_000_000
_SETTLED = 10.0  # planned seconds after which the pace can be told
_LIMITS = {False: "3GB", True: "64MB"}


def paper(
    quick: Annotated[bool, typer.Option("--quick", help="Everything in small, in under three minutes.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the page goes, and what it is made of.")] = Path(
        "chainfold-paper"
    ),
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A KDD Cup 1999 file, or a folder with one; unless given, an invented log of the same kind.",
            show_default=False,
        ),
    ] = None,
    max_length: Annotated[int, typer.Option(metavar="T", help="Positions of the longest sequence.")] = _LONGEST,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for what grows with the sequence, in the runs that are to page: 3GB, or 64MB if quick.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure everything anew, whatever is there.")] = False,
) -> None:
    """Run the experiments of the paper on this machine, and show them on one page.

    Ilić, Mančev, Todorović, Stanković: Gradient Computation in Linear-Chain Conditional Random Fields Using the Entropy
    Message Passing Algorithm. A run that was interrupted goes on where it stopped when the same command is given again.

    Example: chainfold paper --quick
    """
    from importlib.util import find_spec

    if max_length < 1000:
        raise BadSetting("max_length", max_length, "at least 1000 positions")
    if find_spec("matplotlib") is None:
        raise ChainfoldError("the figures need matplotlib: pip install 'chainfold[plot]', and run it again.")
    from chainfold.paper.experiment import PAGE, run
    from chainfold.paper.plan import LEAST_LIMIT, full_plan, quick_plan

    limit = parse_size(memory_limit or _LIMITS[quick])
    if not limit or limit < LEAST_LIMIT:
        raise BadSetting("memory_limit", memory_limit, f"at least {LEAST_LIMIT // 1_000_000}MB")
    plan = (quick_plan if quick else full_plan)(limit, max_length)
    terminal = console()
    with _watched() as watch:
        try:
            results = run(plan, out, data, watch, fresh)
        except KeyboardInterrupt:
            say("chainfold: interrupted; the same command, without --fresh, goes on where it stopped.")
            raise typer.Exit(signals.exit_code()) from None
    _show(results, terminal)
    terminal.print(f"\nThe page: {visible(str(out / PAGE))}", soft_wrap=True)


class _Watch:
    """A bar over the seconds that everything is expected to take; where there is no terminal, a line for each piece."""

    def __init__(self, bars: Progress, console: Console) -> None:
        self._bars, self._console = bars, console
        self._task = bars.add_task("beginning", total=None, left="")
        self._begin, self._total, self._done = time.monotonic(), 0.0, 0.0

    def total(self, seconds: float) -> None:
        self._begin, self._total = time.monotonic(), seconds
        self._bars.reset(self._task, total=seconds)

    @contextmanager
    def doing(self, title: str, seconds: float) -> Iterator[None]:
        left = self._left()
        self._bars.update(self._task, description=title, left=left)
        if not self._console.is_terminal:
            self._console.print(f"{left}: {title}", soft_wrap=True)
        yield
        self._done += seconds
        self._bars.advance(self._task, seconds)

    def _left(self) -> str:
        """What is left by the plan, at the pace so far."""
        pace = (time.monotonic() - self._begin) / self._done if self._done > _SETTLED else 1.0
        seconds = pace * (self._total - self._done)
        return f"about {seconds / 60:.0f} min left" if seconds > 100 else f"about {math.ceil(seconds / 10) * 10} s left"


@contextmanager
def _watched() -> Iterator[_Watch]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    columns = (
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
    )
    terminal = console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, expand=True, disable=not terminal.is_terminal) as bars:
        yield _Watch(bars, terminal)


def _show(results: Result, terminal: Console) -> None:
    """What the paper says, and what was found."""
    rows = [(one["case"], one["claim"], one["verdict"]) for one in results["verdicts"]]
    made: Any = table(("case", "claim", "verdict"), rows, "The paper's claims, measured here")
    for column in made.columns[1:]:
        column.justify = "left"
    terminal.print(made)
