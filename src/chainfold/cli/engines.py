"""`chainfold engines`: the engines to choose from."""

from __future__ import annotations

import json

import typer

from chainfold.cli import options
from chainfold.cli.console import console


def engines(as_json: options.Json = False) -> None:
    """List the engines: what each keeps, its time, how it reads the data.

    Example: chainfold engines
    """
    from chainfold.engines import ENGINES

    if as_json:
        fields = ("summary", "keeps", "time", "reads")
        typer.echo(json.dumps({name: {f: getattr(engine, f) for f in fields} for name, engine in ENGINES.items()}))
        return
    from rich.table import Table

    terminal = console()
    table = Table()
    for heading in ("engine", "keeps", "time", "reads", "what it is"):
        table.add_column(heading, style="bold" if heading == "engine" else None)
    for name, engine in ENGINES.items():
        table.add_row(name, engine.keeps, engine.time, engine.reads, engine.summary)
    terminal.print(table)
    terminal.print("N labels, T positions, M weights, A attributes per position, B positions per block.")
    terminal.print("Cases and algorithms are those of Ilić et al.; with edge attributes fb keeps O(N²T).")
