"""Measure what chainfold costs, piece by piece, and write the page.

    python -m benchmarks [NAME...] [--rounds 5] [--quick] [--out docs] [--data FOLDER] [--fresh] [--redraw]

Each finished piece is kept in OUT/benchmarks/results.json at once: after an interruption the same command goes on with
the next one. With names, just these are measured, again if they were before.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import encoding, gradient, kdd, memory, quality, roofline, scaling, startup, streams, tagging, training
from benchmarks.corpora import Corpora
from benchmarks.measure import ROOT
from benchmarks.page import BAR_COLUMNS, FOLDER, bar_rows, page, table_rows
from benchmarks.pictures import draw
from benchmarks.piece import Context, Piece
from benchmarks.results import Found, Ledger, Unusable, read
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from chainfold.system.files import written_whole

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *PIECES], help=", ".join(PIECES))
    parser.add_argument("--rounds", type=int, help=f"rounds of each comparison; {_ROUNDS}, quickly {_QUICK_ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="small made-up data, to see that everything runs")
    parser.add_argument("--out", type=Path, help=f"where the page goes; {_OUT}, quickly {_QUICK_OUT}")
    parser.add_argument("--data", type=Path, help="the real data sets; CHAINFOLD_DATA, or ../shared/data")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--redraw", action="store_true", help="only write the page and pictures again")
    asked = parser.parse_args()
    out = asked.out or ROOT / (_QUICK_OUT if asked.quick else _OUT)
    data = asked.data or Path(os.environ.get("CHAINFOLD_DATA", ROOT.parent / "shared" / "data"))
    console = Console(width=None if Console().is_terminal else _WIDTH)
    try:
        if not asked.redraw:
            with TemporaryDirectory(prefix="chainfold-") as folder:
                corpora = Corpora(data.resolve() if data.exists() else None, Path(folder), asked.quick)
                rounds = asked.rounds or (_QUICK_ROUNDS if asked.quick else _ROUNDS)
                ledger = Ledger(out / FOLDER / RESULTS, asked.quick, corpora.real, asked.fresh)
                if not corpora.real and not asked.quick:
                    console.print(f"Not all real data sets are in {data}: made-up files take their place.")
                names = asked.names or ledger.left or [name for name, piece in PIECES.items() if piece.by_default]
                context = Context(rounds, asked.quick, corpora, Path(folder), lambda what: None)
                measure(names, ledger, context, console)
        redraw(out)
    except Unusable as problem:
        raise SystemExit(str(problem)) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted; the same command, without --fresh, goes on with the next piece.") from None
    console.print(f"The page: {out / PAGE}", soft_wrap=True)


if __name__ == "__main__":
    main()
