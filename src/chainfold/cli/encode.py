"""`chainfold encode`: files of any size to a chain on disk."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.machine import peak_rss_mb
from chainfold.cli.show import table
from chainfold.errors import BadFile, ChainfoldError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from chainfold.data.encoder import Progress

_STANDARD_OUTPUT = "-"
_NOTHING_DONE: dict[str, Any] = {"done": 0, "rate": 0.0}


def encode(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, globs, or - for standard input.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DATA", help="The chain to write; - for standard output.")
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="conll, conllu, crfsuite, csv, tsv, parquet or arrow; recognised unless given.",
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Names for columns that have none, for instance word,pos,chunk.")
    ] = None,
    symbols: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of tables that are symbols even if they look like numbers."),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Does the first line of a CSV or TSV file name the columns? Guessed unless given.",
        ),
    ] = None,
    encoding: Annotated[str, typer.Option(metavar="NAME", help="The encoding of text.")] = "utf-8",
    template: Annotated[Path | None, typer.Option(metavar="FILE", help="A CRF++ or Wapiti template.")] = None,
    attributes: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSIONS",
            help='Attributes to make, for instance "word[-1] word shape(word)"; every column as it is unless given.',
        ),
    ] = None,
    border: Annotated[
        str | None,
        typer.Option(
            metavar="WAY",
            help="What --attributes see beyond a sequence: crfsuite (nothing, the default), crfpp or wapiti.",
        ),
    ] = None,
    numbers: Annotated[
        str | None,
        typer.Option(
            metavar="WAY",
            help="What becomes of columns of numbers taken as they are: quantile (16 bins, the default), log, real, "
            "standard or symbol.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The labels; the column called label, else the last, unless given."),
    ] = None,
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Is there a column of labels?")] = True,
    unknown: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Stands for an unknown label, as an empty one does.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A new sequence starts where this column changes.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The weights of the positions; all weigh one unless given.")
    ] = None,
    one_sequence: Annotated[bool, typer.Option("--one-sequence", help="Nothing starts a new sequence.")] = False,
    min_count: Annotated[int, typer.Option(metavar="K", help="Leave out attributes that occur less often.")] = 1,
    hash_bits: Annotated[
        int | None, typer.Option(metavar="B", help="Hash attributes to B bits: memory that does not grow, no names.")
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Put the positions behind those that DATA has already.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Encode files of any size into a chain on disk, in memory that does not grow with them.

    Example: chainfold encode train.txt.gz --columns word,pos,chunk --attributes "word[-1] word pos" -o train.chain
    """
    from rich.console import Console

    from chainfold.data.encode import Options, encode_to
    from chainfold.data.encode import encode as encode_files

    if append and output == _STANDARD_OUTPUT:
        raise ChainfoldError("--append continues a file, and standard output is none; name the chain with -o.")
    begin = time.perf_counter()
    with _watched(Console(stderr=True)) as progress:
        how = Options(
            format=form,
            columns=None if columns is None else _names(columns),
            symbols=[] if symbols is None else _names(symbols),
            header=header,
            encoding=encoding,
            template=template,
            attributes=attributes,
            border=border,
            numbers=numbers,
            label=label,
            labels=labels,
            unknown=unknown,
            group=group,
            weight=weight,
            one_sequence=one_sequence,
            min_count=min_count,
            hash_bits=hash_bits,
            progress=progress,
        )
        if output == _STANDARD_OUTPUT:
            if sys.stdout is None:
                raise BadFile("standard output", "cannot be written: it is closed.")
            encode_to(sys.stdout.buffer, inputs, **how)
            return
        chain = encode_files(inputs, output, append=append, **how)
    seconds = time.perf_counter() - begin
    facts = {
        "output": output,
        "positions": chain.positions,
        "sequences": chain.sequences,
        "labels": chain.n_labels,
        "attributes": chain.n_attributes,
        "edge_attributes": chain.n_edge_attributes,
        "attributes_per_position": chain.active,
        "bytes": Path(output).stat().st_size,
        "seconds": seconds,
        "positions_per_second": chain.positions / seconds,
        "peak_rss_mb": peak_rss_mb(),
    }
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


@contextmanager
def _watched(console: Console) -> Iterator[Progress]:
    """A bar over the positions, or over the bytes of the input while it is not known how many there are."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from chainfold.data.encoder import Progress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[megabytes]:,.1f} MB read"),
        TextColumn("{task.fields[done]:>13,} positions {task.fields[rate]:>9,.0f}/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("", total=None, megabytes=0.0, **_NOTHING_DONE)
        watch = _Watch(bars, task)
        yield Progress(total=watch.total, phase=watch.phase, read=watch.read, positions=watch.positions)


class _Watch:
    """What the bar shows."""

    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars, self._task = bars, task
        self._size: int | None = None
        self._bytes = 0

    def total(self, size: int | None) -> None:
        self._size = size

    def phase(self, name: str, positions: int | None) -> None:
        self._by_bytes = positions is None
        self._begin, self._done = time.perf_counter(), 0
        total, shown = self._size if self._by_bytes else positions, {"megabytes": self._bytes / 1e6, **_NOTHING_DONE}
        self._bars.reset(self._task, description=name, total=total, **shown)

    def read(self, size: int) -> None:
        self._bytes += size
        self._bars.update(self._task, megabytes=self._bytes / 1e6)
        if self._by_bytes:
            self._bars.update(self._task, completed=self._bytes)

    def positions(self, count: int) -> None:
        self._done += count
        self._bars.update(self._task, done=self._done, rate=self._done / (time.perf_counter() - self._begin))
        if not self._by_bytes:
            self._bars.update(self._task, completed=self._done)


def _show(facts: dict[str, Any]) -> None:
    from rich.console import Console

    rows = [
        ("positions", f"{facts['positions']:,}"),
        ("sequences", f"{facts['sequences']:,}"),
        ("labels", f"{facts['labels']:,}"),
        ("attributes", f"{facts['attributes']:,}"),
        ("edge attributes", f"{facts['edge_attributes']:,}"),
        ("attributes a position", f"{facts['attributes_per_position']:.1f}"),
        ("size", f"{facts['bytes'] / 1e6:,.1f} MB"),
        ("seconds", f"{facts['seconds']:.2f}"),
        ("positions a second", f"{facts['positions_per_second']:,.0f}"),
        ("peak memory", f"{facts['peak_rss_mb']:,.0f} MB"),
    ]
    Console().print(table((), rows, facts["output"]))
