"""`chainfold encode`: files of any size to a chain on disk."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.cluster import Cluster, joined_cluster, refuse_with_cluster
from chainfold.cli.console import report, rows_of
from chainfold.cli.input_options import INPUT
from chainfold.cli.parameters import grouped
from chainfold.cli.progress import bar
from chainfold.errors import ChainfoldError
from chainfold.system.machine import resident
from chainfold.system.outputs import STANDARD, check_outputs
from chainfold.system.storage import is_uri

if TYPE_CHECKING:
    from distributed import Client

Files = Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, globs, or - for standard input.")]
ChainOutput = Annotated[
    str, typer.Option("--output", "-o", metavar="DATA", help="The chain to write; - for standard output.")
]
Append = Annotated[bool, typer.Option("--append", help="Append the positions to those in DATA.")]
Again = Annotated[
    bool, typer.Option("--again", help="Append the rows even if an earlier --append has appended the same.")
]
PartSize = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Write a chain in parts: a folder of files, each of about this much input, for instance 64MB.",
    ),
]
PartThreads = Annotated[
    int | None, typer.Option("--threads", metavar="K", help="Threads, for a chain in parts. Default: all cores.")
]


@grouped(spec=INPUT)
def encode(
    inputs: Files,
    output: ChainOutput,
    spec: dict[str, Any],
    append: Append = False,
    again: Again = False,
    part_size: PartSize = None,
    cluster: Cluster = None,
    threads: PartThreads = None,
    as_json: options.Json = False,
) -> None:
    """Encode files of any size into a chain on disk, in bounded memory.

    Example: chainfold encode train.txt.gz --columns word,pos,chunk --attributes "word[-1] word pos" -o train.chain
    """
    from chainfold.features.encode import encode as encode_files
    from chainfold.features.encode import encode_to
    from chainfold.features.parts import encode_in_parts

    size = options.parse_size(part_size)
    _check_ways(output, append, again, size, threads, cluster)
    if not is_uri(output):
        folder = size is not None or cluster is not None or Path(output).is_dir()
        check_outputs(options.with_standard([output]), [inputs, spec.get("template")], folder)
    begin = time.perf_counter()
    client = None if cluster is None else options.entered(joined_cluster(cluster))
    with bar() as progress:
        if output == STANDARD:
            encode_to(options.standard_output(), inputs, progress=progress.reading(), **spec)
            return
        reading: dict[str, Any] = {"progress": progress.reading(), **spec}
        if client is not None:
            chain: Any = _on_cluster(client, inputs, output, size, reading)
        elif size is None:
            chain = encode_files(inputs, output, append=append, again=again, **reading)
        else:
            chain = encode_in_parts(inputs, output, part_size=size, threads=threads, **reading)
    facts = _facts(output, chain, time.perf_counter() - begin)
    shown = {name: fact for name, fact in facts.items() if name != "output" and fact is not None}
    report(facts, rows_of(shown), output, as_json)


def _check_ways(
    output: str, append: bool, again: bool, size: int | None, threads: int | None, cluster: str | None
) -> None:
    """Raise unless the options say one way to write a chain."""
    if again and not append:
        raise ChainfoldError("--again requires --append.")
    if append and output == STANDARD:
        raise ChainfoldError("--append requires a file; name the chain with -o.")
    refuse_with_cluster(cluster, append=append, threads=threads is not None)
    if cluster is not None and output == STANDARD:
        raise ChainfoldError("--cluster requires -o FOLDER.")
    if size is None and threads is not None:
        raise ChainfoldError("--threads requires --part-size.")
    if size is not None and (append or output == STANDARD):
        raise ChainfoldError("--part-size requires -o FOLDER, and excludes --append.")


def _on_cluster(client: Client, inputs: list[str], output: str, size: int | None, reading: dict[str, Any]) -> Any:
    from chainfold.dask.encoding import encode as encode_files
    from chainfold.features.part_plan import PART_SIZE

    return encode_files(client, inputs, output, part_size=PART_SIZE if size is None else size, **reading)


def _facts(output: str, chain: Any, seconds: float) -> dict[str, Any]:
    return {
        "output": output,
        "positions": chain.positions,
        "sequences": chain.sequences,
        "labels": chain.n_labels,
        "attributes": chain.n_attributes,
        "edge_attributes": chain.n_edge_attributes,
        "attributes_per_position": chain.active,
        "parts": len(chain.parts) if hasattr(chain, "parts") else None,
        "bytes": chain.size,
        "seconds": seconds,
        "positions_per_second": chain.positions / seconds,
        "peak_rss_mb": resident() / 1e6,
    }
