"""`python -m experiments paper`: the experiments of Ilić et al., measured on this machine, on one page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from chainfold.cli.console import say
from chainfold.errors import require
from experiments import ROOT

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
            metavar="FILE",
            help="A KDD Cup 1999 file; unless given, an invented log of the same kind.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard what was measured before.")] = False,
    redraw: Annotated[bool, typer.Option("--redraw", help="Only draw the figures and the page again.")] = False,
) -> None:
    """Run the experiments of the paper on this machine, and show them on one page.

    Ilić, Mančev, Todorović, Stanković: Gradient Computation in Linear-Chain Conditional Random Fields Using the Entropy
    Message Passing Algorithm. An interrupted run continues when the same command is given again.

    Example: python -m experiments paper --quick
    """
    require("plot", "a run with figures")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes that are measured: as in the command line
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from experiments.paper.experiment import PAGE, draw_again, run
    from experiments.paper.run_plan import FULL, QUICK

    out = out or ROOT / (_QUICK_OUT if quick else _OUT)
    results = draw_again(out) if redraw else run(QUICK if quick else FULL, out, data, fresh)
    for one in results["verdicts"]:
        say(f"{one['case']:6} {one['verdict']:12} {one['claim']}", err=False)
    say(f"The page: {out / PAGE}", err=False)
