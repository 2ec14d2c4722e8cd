"""`chainfold encode`: files of any size to a chain on disk."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from chainfold.cli import input_options as reading
from chainfold.cli import options
from chainfold.cli.console import console, table
from chainfold.cli.progress import watched
from chainfold.errors import BadFile, ChainfoldError
from chainfold.system.machine import resident
from chainfold.system.outputs import STANDARD


def encode(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, globs, or - for standard input.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DATA", help="The chain to write; - for standard output.")
    ],
    form: reading.Form = None,
    columns: reading.Columns = None,
    symbols: reading.Symbols = None,
    header: reading.Header = None,
    encoding: reading.TextEncoding = "utf-8",
    unknown: reading.Unknown = None,
    comments: reading.Comments = None,
    group: reading.Group = None,
    groups_return: reading.GroupsReturn = False,
    one_sequence: reading.OneSequence = False,
    label: reading.Label = None,
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Is there a column of labels?")] = True,
    weight: reading.Weight = None,
    template: reading.Template = None,
    attributes: reading.Attributes = None,
    border: reading.Border = None,
    numbers: reading.Numbers = None,
    min_count: reading.MinCount = 1,
    hash_bits: reading.HashBits = None,
    append: Annotated[
        bool, typer.Option("--append", help="Put the positions behind those that DATA has already.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Append the rows even if DATA has them from an earlier --append.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Encode files of any size into a chain on disk, in memory that does not grow with them.

    Example: chainfold encode train.txt.gz --columns word,pos,chunk --attributes "word[-1] word pos" -o train.chain
    """

    from chainfold.features.encode import encode as encode_files
    from chainfold.features.encode import encode_to

    if again and not append:
        raise ChainfoldError("--again says that rows may be appended twice; give --append as well, or leave it out.")
    if append and output == STANDARD:
        raise ChainfoldError("--append continues a file, and standard output is none; name the chain with -o.")
    begin = time.perf_counter()
    with watched() as progress:
        how: dict[str, Any] = {
            "format": form,
            "columns": reading.names(columns),
            "symbols": reading.names(symbols) or [],
            "header": header,
            "encoding": encoding,
            "template": template,
            "attributes": attributes,
            "border": border,
            "numbers": numbers,
            "label": label,
            "labels": labels,
            "unknown": unknown,
            "comments": comments,
            "group": group,
            "groups_return": groups_return or None,
            "weight": weight,
            "one_sequence": one_sequence,
            "min_count": min_count,
            "hash_bits": hash_bits,
            "progress": progress,
        }
        if output == STANDARD:
            options.hold([output], inputs, template)
            if sys.stdout is None:
                raise BadFile("standard output", "cannot be written: it is closed.")
            encode_to(sys.stdout.buffer, inputs, **how)
            return
        chain = encode_files(inputs, output, append=append, again=again, **how)
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
        "peak_rss_mb": resident() / 1e6,
    }
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts)


def _show(facts: dict[str, Any]) -> None:
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
    console().print(table((), rows, facts["output"]))
