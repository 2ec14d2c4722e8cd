"""`chainfold plan`: what each engine needs, and which one is chosen."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import console
from chainfold.cli.parameters import grouped
from chainfold.errors import BadSetting

WeightCount = Annotated[
    int | None, typer.Option(metavar="M", help="Number of weights. Default: every attribute with every label.")
]


@grouped(chain=options.CHAIN.only("data", "synthetic", "edge_attributes"))
def plan(
    chain: options.ChainOptions,
    threads: options.Threads = 1,
    memory: options.Memory = None,
    weights: WeightCount = None,
    as_json: options.Json = False,
) -> None:
    """Predict each engine's memory and time on a chain, and show which one `--engine auto` takes and why.

    Example: chainfold plan --synthetic 50000000:23:5000:41 --threads 2 --memory 1GB
    """
    from chainfold.engines.plan import choose
    from chainfold.engines.settings import Settings, Shape

    size = options.parse_size(memory)
    options.hold([], chain.data)
    source = chain.open()
    options.check_labels(source)
    n = source.n_labels
    if weights is not None and weights < 1:
        raise BadSetting("weights", weights, "at least 1")
    every = (source.n_attributes + (1 + source.n_edge_attributes) * n) * n
    shape = Shape(source.positions, n, weights or every, source.active, source.n_edge_attributes)
    choice = choose(shape, Settings(threads=threads, memory=size))
    fastest = min(cost.time for cost in choice.costs.values())
    rows = {
        name: {
            "memory_mb": cost.memory / 1e6,
            "relative_time": cost.time / fastest,
            "fits": size is None or cost.memory <= size,
        }
        for name, cost in choice.costs.items()
    }
    if as_json:
        typer.echo(json.dumps({"choice": choice.engine, "reason": choice.reason, "engines": rows}))
    else:
        _show(rows, choice.engine, choice.reason)


def _show(rows: dict[str, dict[str, Any]], chosen: str, reason: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="predicted: working memory besides the model and the data, and time relative to the fastest")
    for heading in ("engine", "memory", "time", "fits"):
        table.add_column(heading, justify="left" if heading == "engine" else "right")
    for name, row in rows.items():
        table.add_row(
            name,
            f"{row['memory_mb']:,.1f} MB",
            f"{row['relative_time']:,.1f} ×",
            "yes" if row["fits"] else "no",
            style="bold green" if name == chosen else None,
        )
    terminal = console()
    terminal.print(table)
    terminal.print(Text.assemble((chosen, "bold"), f": {reason}"))
