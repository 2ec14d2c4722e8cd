"""Measure what chainfold costs, piece by piece, and write the page.

    python -m experiments bench [NAME...] [--rounds 5] [--quick] [--out docs] [--data FOLDER] [--fresh] [--redraw]

Each finished piece is kept in OUT/benchmarks/results.json at once: after an interruption the same command goes on with
the next one. With names, just these are measured, again if they were before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from chainfold import stopping
from chainfold.cli.show import say
from chainfold.errors import BadSetting
from chainfold.files import written_whole
from experiments import ROOT
from experiments.bench import (
    encoding,
    gradient,
    kdd,
    memory,
    quality,
    roofline,
    scaling,
    startup,
    streams,
    tagging,
    training,
)
from experiments.bench.charts import draw
from experiments.bench.datasets import Corpora
from experiments.bench.findings import Found, Ledger, read
from experiments.bench.report import BAR_COLUMNS, FOLDER, bar_rows, page, table_rows
from experiments.bench.section import Context, Piece

PIECES: dict[str, Piece] = {
    module.PIECE.name: module.PIECE
    for module in (gradient, kdd, training, encoding, tagging, streams, memory, scaling, startup, roofline, quality)
}
RESULTS, PAGE = "results.json", "benchmarks.md"

_ROUNDS, _QUICK_ROUNDS = 5, 2
_OUT, _QUICK_OUT = "docs", "build"
_WIDTH = 150  # of tables, where there is no terminal


def redraw(out: Path) -> None:
    """The page and its pictures, from the file of results alone."""
    results = read(out / FOLDER / RESULTS)
    draw(results, out / FOLDER)
    with written_whole(out / PAGE) as file:
        file.write(page(results, PIECES.values()).encode())


def measure(names: list[str], ledger: Ledger, context: Context, console: Console) -> None:
    """One piece after another, each told, kept and shown."""
    judged = context.corpora.real and not context.quick
    ledger.begin(names)
    _plan(names, context.quick, console)
    for name in names:
        piece = PIECES[name]
        begin = time.monotonic()
        with _watched(piece, console) as say:
            found = piece.run(context._replace(say=say))
        ledger.add(name, found, context.rounds, time.monotonic() - begin)
        _show(found, judged, console)


def _plan(names: list[str], quick: bool, console: Console) -> None:
    minutes = {name: PIECES[name].minutes for name in names}
    if quick:
        console.print(f"{', '.join(names)}: quickly, on small made-up data")
        return
    told = ", ".join(f"{name} {minutes[name]:g}" for name in names)
    console.print(f"about {sum(minutes.values()):g} minutes: {told}", highlight=False)


@contextmanager
def _watched(piece: Piece, console: Console) -> Iterator[Callable[[str], None]]:
    """A line that says what is being done; where there is no terminal, a line for each piece."""
    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    if not console.is_terminal:
        console.print(f"{time.strftime('%H:%M:%S')}  {piece.title}", highlight=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(piece.title, total=None)
        yield lambda what: bars.update(task, description=f"{piece.title}: {what}")


def _show(found: Found, judged: bool, console: Console) -> None:
    tables = [(one.title, one.columns, table_rows(one)) for one in found.tables]
    if found.bars:
        tables.append(("What has to be reached", BAR_COLUMNS, bar_rows(found.bars, judged)))
    for title, columns, rows in tables:
        made = RichTable(title=title, title_justify="left")
        for column in columns:
            made.add_column(column)
        for row in rows:
            made.add_row(*(cell.replace("**", "") for cell in row))
        console.print(made)
    for note in found.notes:
        console.print(note)


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help=", ".join(PIECES))] = None,
    rounds: Annotated[
        int | None,
        typer.Option(help=f"Rounds of each comparison: {_ROUNDS}, or {_QUICK_ROUNDS} if quick.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small made-up data, to see that everything runs.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"The folder of the page: {_OUT}, or {_QUICK_OUT} if quick.", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The real data sets; CHAINFOLD_DATA, or ../shared/data.", show_default=False),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard what was measured before.")] = False,
    draw_only: Annotated[bool, typer.Option("--redraw", help="Only write the page and its charts again.")] = False,
) -> None:
    """Measure chainfold's speed, memory and quality, beside other programs, and write the page.

    Each finished piece is kept at once: after an interruption the same command continues with the next one. With
    names, only these are measured, again if they were before.

    Example: python -m experiments bench startup --quick
    """
    for name in names or []:
        if name not in PIECES:
            raise BadSetting("names", name, f"one of {', '.join(PIECES)}")
    out = out or ROOT / (_QUICK_OUT if quick else _OUT)
    data = data or Path(os.environ.get("CHAINFOLD_DATA", ROOT.parent / "shared" / "data"))
    console = Console(width=None if Console().is_terminal else _WIDTH)
    if not draw_only:
        with TemporaryDirectory(prefix="chainfold-") as folder:
            corpora = Corpora(data.resolve() if data.exists() else None, Path(folder), quick)
            ledger = Ledger(out / FOLDER / RESULTS, quick, corpora.real, fresh)
            if not corpora.real and not quick:
                console.print(f"Not all real data sets are in {data}: made-up files take their place.")
            chosen = names or ledger.left or [name for name, piece in PIECES.items() if piece.by_default]
            rounds = rounds or (_QUICK_ROUNDS if quick else _ROUNDS)
            context = Context(rounds, quick, corpora, Path(folder), lambda what: None)
            try:
                measure(chosen, ledger, context, console)
            except KeyboardInterrupt:
                say("chainfold: interrupted; the same command, without --fresh, goes on with the next piece.")
                raise typer.Exit(stopping.code()) from None
    redraw(out)
    console.print(f"The page: {out / PAGE}", soft_wrap=True)
