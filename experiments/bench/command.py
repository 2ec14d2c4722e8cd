"""`python -m experiments bench`: speed and memory of chainfold beside other programs, section by section.

OUT/benchmarks/results.json is the ledger, OUT/benchmarks.md the page.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from chainfold import __version__
from chainfold.cli.console import say
from chainfold.errors import BadSetting
from experiments import ROOT
from experiments.bench import (
    cluster,
    doors,
    encoding,
    gradient,
    kdd,
    memory,
    scaling,
    startup,
    streams,
    tagging,
    torch_layer,
    training,
)
from experiments.bench.datasets import Datasets
from experiments.bench.findings import SectionResults
from experiments.bench.peers import PEERS
from experiments.bench.report import page, tables_of
from experiments.bench.section import Context, Section
from experiments.ledger import Ledger, Result, RunPiece, read, write
from experiments.machine import machine

_MODULES = (
    *(gradient, kdd, training, encoding, tagging, doors),
    *(streams, cluster, memory, scaling, startup, torch_layer),
)
SECTIONS: dict[str, Section] = {module.SECTION.name: module.SECTION for module in _MODULES}
RESULTS, PAGE = "benchmarks/results.json", "benchmarks.md"

_ROUNDS, _QUICK_ROUNDS = 5, 2
_OUT, _QUICK_OUT = "docs", "build"


def piece(section: Section, context: Context) -> RunPiece:
    """A section that is to be run."""
    return RunPiece(section.name, section.title, partial(_measured, section, context))


def _measured(section: Section, context: Context, done: Mapping[str, Result]) -> Result:
    begin = time.monotonic()
    findings = section.run(context)
    seconds = round(time.monotonic() - begin, 1)
    return {"date": date.today().isoformat(), "rounds": context.rounds, "seconds": seconds, **asdict(findings)}


def about(context: Context) -> Result:
    """The machine, the versions of all programs, and the data."""
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
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard what was measured before.")] = False,
    redraw: Annotated[bool, typer.Option("--redraw", help="Only write the page again.")] = False,
) -> None:
    """Measure chainfold's speed and memory beside other programs, and write the page.

    The sections that are named are measured, or all; other results are kept. Real data sets are read from the folder
    in CHAINFOLD_DATA, ../shared/data by default.

    Example: python -m experiments bench startup --quick
    """
    for name in names or []:
        if name not in SECTIONS:
            raise BadSetting("names", name, f"one of {', '.join(SECTIONS)}")
    out = out or ROOT / (_QUICK_OUT if quick else _OUT)
    data = Path(os.environ.get("CHAINFOLD_DATA", ROOT.parent / "shared" / "data"))
    if not redraw:
        with TemporaryDirectory(prefix="chainfold-") as folder:
            corpora = Datasets(data.resolve() if data.exists() else None, Path(folder), quick)
            if not corpora.real and not quick:
                say(f"Not all real data sets are in {data}: made-up files take their place.")
            context = Context(rounds or (_QUICK_ROUNDS if quick else _ROUNDS), quick, corpora, Path(folder), say)
            ledger = Ledger(out / RESULTS, about(context), fresh, comparable)
            ledger.run([piece(SECTIONS[name], context) for name in names or SECTIONS])
    results = read(out / RESULTS)
    write(out / PAGE, page(results, SECTIONS.values()))
    for name in names or []:
        typer.echo("\n\n".join(tables_of(SectionResults.of(results["pieces"][name]))) + "\n")
    say(f"The page: {out / PAGE}", err=False)
