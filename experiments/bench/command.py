"""`python -m experiments bench`: speed, memory and quality of chainfold beside other programs, section by section.

OUT/benchmarks/results.json is the ledger, OUT/benchmarks.md the page, OUT/benchmarks/*.png its charts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from chainfold import __version__
from chainfold.errors import BadSetting
from experiments import ROOT
from experiments.bench import (
    cluster,
    doors,
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
    torch_layer,
    training,
)
from experiments.bench.charts import draw
from experiments.bench.datasets import Datasets
from experiments.bench.findings import SectionResults
from experiments.bench.peers import PEERS
from experiments.bench.report import BAR_COLUMNS, FOLDER, bar_rows, page, table_rows
from experiments.bench.section import Context, Section
from experiments.ledger import Ledger, Result, read, write
from experiments.machine import machine
from experiments.runner import RunPiece, new_display, run_pieces

SECTIONS: dict[str, Section] = {
    module.SECTION.name: module.SECTION
    for module in (
        gradient,
        kdd,
        training,
        encoding,
        tagging,
        doors,
        streams,
        cluster,
        memory,
        scaling,
        startup,
        roofline,
        quality,
        torch_layer,
    )
}
RESULTS, PAGE = "results.json", "benchmarks.md"

_ROUNDS, _QUICK_ROUNDS = 5, 2
_OUT, _QUICK_OUT = "docs", "build"
_WIDTH = 150  # of tables, where there is no terminal


def redraw(out: Path) -> None:
    """The page and its pictures, from the file of results alone."""
    results = read(out / FOLDER / RESULTS)
    draw(results, out / FOLDER)
    write(out / PAGE, page(results, SECTIONS.values()))


def pieces(names: Sequence[str], context: Context) -> list[RunPiece]:
    """The sections of these names, to be run."""
    return [
        RunPiece(name, SECTIONS[name].title, 60.0 * SECTIONS[name].minutes, partial(_measured, SECTIONS[name], context))
        for name in names
    ]


def _measured(section: Section, context: Context, done: Mapping[str, Result]) -> Result:
    begin = time.monotonic()
    findings = section.run(context)
    seconds = round(time.monotonic() - begin, 1)
    return {"date": date.today().isoformat(), "rounds": context.rounds, "seconds": seconds, **asdict(findings)}


def about(context: Context) -> Result:
    """What was measured: the machine, the versions of all programs, and the data."""
    return {
        "machine": machine(),
        "versions": {"chainfold": __version__} | {peer.package: _version(peer.package) for peer in PEERS},
        "quick": context.quick,
        "real_data": context.corpora.real,
    }


def comparable(about: Result) -> Result:
    """The part of `about` that must be equal for results to stand side by side."""
    names = ("processor", "cores", "python", "numpy", "numba")
    return {**about, "machine": {name: about["machine"].get(name) for name in names}}


def _version(package: str) -> str | None:
    """None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _show(name: str, result: Result, judged: bool, terminal: Console) -> None:
    """Print the tables of a section."""
    found = SectionResults.of(result)
    tables = [(one.title, one.columns, table_rows(one)) for one in found.tables]
    if found.bars:
        tables.append(("What has to be reached", BAR_COLUMNS, bar_rows(found.bars, judged)))
    for title, columns, rows in tables:
        made = Table(title=title, title_justify="left")
        for column in columns:
            made.add_column(column)
        for row in rows:
            made.add_row(*(cell.replace("**", "") for cell in row))
        terminal.print(made)
    for note in found.notes:
        terminal.print(note)


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help=", ".join(SECTIONS))] = None,
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
        if name not in SECTIONS:
            raise BadSetting("names", name, f"one of {', '.join(SECTIONS)}")
    out = out or ROOT / (_QUICK_OUT if quick else _OUT)
    data = data or Path(os.environ.get("CHAINFOLD_DATA", ROOT.parent / "shared" / "data"))
    terminal = Console(width=None if Console().is_terminal else _WIDTH)
    if not draw_only:
        with TemporaryDirectory(prefix="chainfold-") as folder:
            corpora = Datasets(data.resolve() if data.exists() else None, Path(folder), quick)
            if not corpora.real and not quick:
                terminal.print(f"Not all real data sets are in {data}: made-up files take their place.")
            display = new_display()
            rounds = rounds or (_QUICK_ROUNDS if quick else _ROUNDS)
            context = Context(rounds, quick, corpora, Path(folder), display.detail)
            ledger = Ledger(out / FOLDER / RESULTS, about(context), fresh, comparable)
            chosen = names or ledger.left or [name for name, section in SECTIONS.items() if section.by_default]
            show = partial(_show, judged=corpora.real and not quick, terminal=terminal)
            run_pieces(pieces(chosen, context), ledger, display, show)
    redraw(out)
    terminal.print(f"The page: {out / PAGE}", soft_wrap=True)
