"""`python -m experiments paper`: the experiments of Ilić et al., measured on this machine, on one page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli.console import console, table
from chainfold.cli.options import parse_size
from chainfold.errors import BadSetting, require
from chainfold.escape import visible
from experiments import ROOT
from experiments.runner import new_display

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.ledger import Result

_LONGEST = 50_000_000
_LIMITS = {False: "3GB", True: "64MB"}
_OUT, _QUICK_OUT = "docs/paper", "build/paper"


def paper(
    quick: Annotated[bool, typer.Option("--quick", help="Everything in small, in under three minutes.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"The folder of the page: {_OUT}, or {_QUICK_OUT} if quick.", show_default=False
        ),
    ] = None,
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
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard what was measured before.")] = False,
    draw_only: Annotated[bool, typer.Option("--redraw", help="Only draw the figures and the page again.")] = False,
) -> None:
    """Run the experiments of the paper on this machine, and show them on one page.

    Ilić, Mančev, Todorović, Stanković: Gradient Computation in Linear-Chain Conditional Random Fields Using the Entropy
    Message Passing Algorithm. An interrupted run continues when the same command is given again.

    Example: python -m experiments paper --quick
    """
    if max_length < 1000:
        raise BadSetting("max_length", max_length, "at least 1000 positions")
    require("plot", "a run with figures")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes that are measured: as in the command line
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from experiments.paper.experiment import PAGE, redraw, run
    from experiments.paper.run_plan import LEAST_LIMIT, full_plan, quick_plan

    limit = parse_size(memory_limit or _LIMITS[quick])
    if not limit or limit < LEAST_LIMIT:
        raise BadSetting("memory_limit", memory_limit, f"at least {LEAST_LIMIT // 1_000_000}MB")
    out = out or ROOT / (_QUICK_OUT if quick else _OUT)
    plan = (quick_plan if quick else full_plan)(limit, max_length)
    results = redraw(out) if draw_only else run(plan, out, data, new_display(), fresh)
    terminal = console()
    _show(results, terminal)
    terminal.print(f"\nThe page: {visible(str(out / PAGE))}", soft_wrap=True)


def _show(results: Result, terminal: Console) -> None:
    """The paper's claims, and what was measured."""
    rows = [(verdict["case"], verdict["claim"], verdict["verdict"]) for verdict in results["verdicts"]]
    made: Any = table(("case", "claim", "verdict"), rows, "The paper's claims, measured here")
    for column in made.columns[1:]:
        column.justify = "left"
    terminal.print(made)
