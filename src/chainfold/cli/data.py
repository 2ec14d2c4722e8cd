"""`chainfold data`: the content of a stored chain, in numbers or as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chainfold.cli import options
from chainfold.cli.console import console, rows_of, table
from chainfold.cli.progress import bar
from chainfold.errors import BadSetting
from chainfold.system.outputs import STANDARD
from chainfold.system.storage import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from chainfold.chain.batches import ChainReader
    from chainfold.chain.vocabulary import Vocabulary

_MOST_LABELS = 40  # in the table
_MOST_TEXT = 240  # characters of a template in the table


ChainFile = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="A chain made by `chainfold encode`; - for standard input.", allow_dash=True),
]
Decode = Annotated[bool, typer.Option("--decode", help="Print the chain as lines of attributes.")]
Top = Annotated[int, typer.Option(metavar="K", help="Number of most frequent attributes to show.")]


def data(chain: ChainFile, decode: Decode = False, top: Top = 10, as_json: options.Json = False) -> None:
    """Show the content of a chain: sizes, labels, attributes, vocabulary; or print it as text.

    Example: chainfold data train.chain
    """
    from chainfold.chain.any_chain import open_chain

    if top < 0:
        raise BadSetting("top", top, "at least 0")
    options.hold([], chain)
    source = open_chain(options.standard_input() if str(chain) == STANDARD else chain)
    if decode:
        from chainfold.readers.chain_text import write_lines

        write_lines(source, options.standard_output())
        return
    facts = _facts(source, top)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts)


class Counts(NamedTuple):
    """Counts of one pass over a chain."""

    labels: NDArray[np.int64]  # [1 + labels], unknown ones first
    longest: int


def _facts(source: ChainReader, top: int) -> dict[str, Any]:
    from chainfold.chain.header import VERSION
    from chainfold.chain.vocabulary import label_names

    header, vocabulary = source.header, source.vocabulary
    counts = _counted(source)
    names = label_names(vocabulary, source.n_labels)
    size: int | None = getattr(source, "size", None)  # a pipe has none
    return {
        "chain": shown(source.path),
        "version": VERSION,
        "bytes": size,
        "bytes_a_position": None if size is None else size / source.positions,
        "parts": _parts(source),
        "positions": source.positions,
        "sequences": source.sequences,
        "mean_length": source.positions / source.sequences,
        "longest": counts.longest,
        "labels": [
            {"label": name, "count": int(count), "share": int(count) / source.positions}
            for name, count in zip(names, counts.labels[1:], strict=True)
        ],
        "unknown_labels": int(counts.labels[0]),
        "attributes": source.n_attributes,
        "attributes_a_position": source.active,
        "pairs": None if vocabulary is None else _pairs(vocabulary),
        "top": None if vocabulary is None else _most_frequent(vocabulary, top),
        "values": header.valued,
        "edge_attributes": source.n_edge_attributes,
        "edge_values": header.edge_valued,
        "weights": header.weighted,
        "template": None if header.template is None else _outlines(header.template),
        "hash_bits": header.hash_bits,
        "min_count": header.min_count,
        "vocabulary": header.vocabulary,
    }


def _outlines(template: str) -> list[str]:
    """The attributes of a template in short."""
    from chainfold.features.template import Template

    return [feature.outline for feature in Template.from_json(template).features]


def _parts(source: ChainReader) -> list[dict[str, Any]] | None:
    """The table of parts; None for a single file."""
    from chainfold.chain.parts import ChainInParts

    if not isinstance(source, ChainInParts):
        return None
    return [
        {"name": part.name, "first": part.first, "positions": part.positions, "sequences": part.sequences}
        | {"attributes": part.entries, "bytes": part.size, "sha256": part.sha256}
        for part in source.parts
    ]


def _counted(source: ChainReader) -> Counts:
    """Read the chain once, a batch at a time."""
    import numpy as np

    labels, longest, last_start = np.zeros(1 + source.n_labels, np.int64), 0, 0
    with bar("counting labels", source.positions) as progress:
        for low in range(0, source.positions, source.batch):
            block = source.block(low, min(low + source.batch, source.positions))
            labels += np.bincount(block.labels + 1, minlength=labels.size)
            starts = np.concatenate([[last_start], low + np.flatnonzero(block.starts)])
            longest, last_start = max(longest, int(np.diff(starts).max(initial=0))), int(starts[-1])
            progress.advance(block.labels.size)
    return Counts(labels, max(longest, source.positions - last_start))


def _pairs(vocabulary: Vocabulary) -> int:
    """The number of (attribute, label) pairs that occur."""
    import numpy as np

    return int(np.bitwise_count(vocabulary.marks).sum(dtype=np.int64))


def _most_frequent(vocabulary: Vocabulary, top: int) -> list[dict[str, Any]]:
    import numpy as np

    order = np.argsort(-vocabulary.counts, kind="stable")[:top]
    names = order if vocabulary.attributes is None else vocabulary.attributes.take(order).to_pylist()
    return [
        {"attribute": str(name), "count": int(vocabulary.counts[attribute])}
        for name, attribute in zip(names, order, strict=True)
    ]


def _show(facts: dict[str, Any]) -> None:
    terminal = console()
    left_out = ("chain", "top", "template", "vocabulary")
    known = {name: fact for name, fact in facts.items() if name not in left_out and fact is not None}
    rows = rows_of({name: len(fact) if isinstance(fact, list) else fact for name, fact in known.items()})
    if facts["template"] is not None:
        template = " ".join(facts["template"])
        rows.append(("template", template if len(template) <= _MOST_TEXT else f"{template[:_MOST_TEXT]}…"))
    terminal.print(table((), rows, facts["chain"]))
    labels = sorted(facts["labels"], key=lambda row: -row["count"])
    if labels:
        counts = [(row["label"], f"{row['count']:,}", f"{row['share']:.2%}") for row in labels[:_MOST_LABELS]]
        terminal.print(table(("label", "positions", "share"), counts))
        if len(labels) > _MOST_LABELS:
            terminal.print(f"… and {len(labels) - _MOST_LABELS:,} more labels; --json has all of them.")
    if facts["top"]:
        frequent = [(row["attribute"], f"{row['count']:,}") for row in facts["top"]]
        terminal.print(table(("most frequent attributes", "entries"), frequent))
