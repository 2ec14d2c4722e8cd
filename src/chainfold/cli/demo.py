"""`chainfold demo`: the gradient of one long chain by several engines, each in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.errors import ChainfoldError

if TYPE_CHECKING:
    from rich.console import Console


_SIZES = "5:100:8"  # labels, attributes, attributes a position


def demo(
    positions: Annotated[int, typer.Option(help="Length of the long chain.")] = 5_000_000,
    short: Annotated[int, typer.Option(help="Length of the chain for the algorithms as published.")] = 10_000,
) -> None:
    """Compute the gradient of a synthetic chain with several engines and compare time, memory and result.

    Example: chainfold demo
    """
    from rich.console import Console

    console = Console()
    console.print(f"One sequence of {positions:,} positions, made on the fly (5 labels, 8 of 100 attributes each).")
    _compare(
        console,
        f"{positions}:{_SIZES}",
        [("stream", 1), ("parallel", 2), ("fb", 1), ("fb-recompute", 1), ("fb-spill", 1), ("checkpoint", 1)],
    )
    console.print("Agreement: the largest difference of two gradients, divided by the number of positions.")
    console.print(f"\nIts first {short:,} positions, beside the paper's algorithms as published.")
    _compare(console, f"{short}:{_SIZES}", [("stream", 1), ("fb-log", 1), ("emp", 1)])


def _compare(console: Console, synthetic: str, runs: list[tuple[str, int]]) -> None:
    import numpy as np
    from rich.table import Table

    table = Table()
    for heading in ("engine", "threads", "log Z", "seconds", "peak memory", "agreement"):
        table.add_column(heading, justify="left" if heading == "engine" else "right")
    reference = None
    with tempfile.TemporaryDirectory(prefix="chainfold-") as folder, console.status("") as status:
        for engine, threads in runs:
            path = Path(folder) / "gradient.npy"
            status.update(f"{engine}: compiling, if it never was …")  # in a process whose memory is not measured
            _run(f"2:{_SIZES}", engine, threads, path)
            status.update(f"{engine} …")
            facts = _run(synthetic, engine, threads, path)
            gradient = np.load(path)
            if reference is None:
                reference, agreement = gradient, "reference"
            else:
                difference = np.abs(gradient - reference).max() / facts["positions"]
                agreement = f"{difference:.0e}"
            table.add_row(
                engine,
                str(threads),
                f"{facts['log_z']:.10g}",
                f"{facts['seconds']:.2f}",
                f"{facts['peak_rss_mb']:,.0f} MB",
                agreement,
            )
    console.print(table)


def _run(synthetic: str, engine: str, threads: int, gradient: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "chainfold", "gradient", "--synthetic", synthetic, "--engine", engine]
    command += ["--threads", str(threads), "--weights", "random", "--json", "--output", str(gradient)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise ChainfoldError(done.stderr.strip().removeprefix("chainfold: "))
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts
