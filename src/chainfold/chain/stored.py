"""The chain on disk: one Arrow IPC file; or the same as an Arrow IPC stream, through a pipe.

A record batch holds a stretch of positions, all batches but the last equally many:

    label        int32, -1 where unknown
    start        uint8, 1 where a sequence starts
    weight       float64; left out where all are one
    ids          large_list of attribute ids: a dictionary of their names, or int32 where they have none
    values       large_list of float64; left out where all are one
    edge_ids     like ids, edge_values like values; left out where there are no edge attributes

The sizes and the vocabulary stand in the schema's metadata, under a digest that is checked when the chain is opened. A
batch carries a checksum of its numbers. The file is written under a temporary name, and renamed when whole. `batches`
reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain as one_after_another
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from chainfold.chain.batches import CHECKSUM, check_machine, checksum
from chainfold.chain.block import NO_LABEL, Block, Source, check_block, vocabulary_of
from chainfold.chain.header import EDGE, MOST_ROWS, STATE, Header, digest, digest_of, packed
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadChain, BadFile, EmptyChain
from chainfold.system.files import written_whole
from chainfold.system.prefetch import read_ahead

_MOST_ENTRIES = 1 << 20  # in a batch, or so
_BLOCKS_AHEAD = 1
_EXTRAS = ("valued", "edge_valued", "weighted")  # what a chain may have; its column is left out otherwise


def write_chain(
    target: str | Path | BinaryIO, source: Source, origin: str | None = None, appended: tuple[str, ...] = ()
) -> None:
    """Write a source to a chain file or to an open binary file; `open_chain` reads it.

    target     a path, which appears complete or not at all, or an open file
    source     the chain
    origin     a text about the input, kept in the header
    appended   digests of the parts that were appended

    A source that has `sequences`, their number, is read once and in order; it may then state whether it is `valued`,
    `edge_valued` and `weighted`, else its first block shows it. Raises `ChainfoldError` (`BadFile`) where the file
    cannot be written.

    >>> from chainfold import SyntheticChain, open_chain
    >>> write_chain("example.chain", SyntheticChain(1000, 2, 6, 3))
    >>> open_chain("example.chain").positions
    1000
    """
    check_machine()
    about = {"origin": origin, "appended": appended}
    if isinstance(target, str | Path):
        with written_whole(target) as file:
            _write(pa.ipc.new_file, file, source, about)
        return
    try:
        _write(pa.ipc.new_stream, target, source, about)
        target.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadFile("standard output", f"cannot be written: {error.strerror or error}.") from None


def write_part(file: Any, source: Source, first: int, chain: str | None) -> None:
    """Write a source as the part of a chain that begins at the position `first`; chain: its vocabulary's sha256."""
    check_machine()
    _write(pa.ipc.new_file, file, source, {"origin": chain, "first": first})


def write_vocabulary(file: Any, totals: Source) -> Header:
    """Write the vocabulary of a chain in parts; totals: a source with its sizes and vocabulary, which is not read."""
    check_machine()
    vocabulary = vocabulary_of(totals)
    extras = {name for name in _EXTRAS if getattr(totals, name)}
    entries = round(totals.active * totals.positions)
    header = _header(totals, _rows_of(totals), totals.sequences, entries, extras)  # type: ignore[attr-defined]
    names = {} if vocabulary is None else _names_to_write(header, vocabulary)
    schema = header.schema.with_metadata(packed(header, vocabulary))
    with pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(_batch(_no_positions(header), schema, names))  # the names come with it
    return header


def _no_positions(header: Header) -> Block:
    offsets, nothing = np.zeros(1, np.int64), np.empty(0)
    edge_offsets = offsets if header.n_edge_attributes else np.empty(0, np.int64)
    none = np.empty(0, np.int32)
    return Block(none, np.empty(0, np.bool_), offsets, none, nothing, edge_offsets, none, nothing)


def _write(new_writer: Callable[..., Any], file: Any, source: Source, about: dict[str, Any]) -> None:
    """about: what the header says of the source besides its sizes."""
    header, blocks = _surveyed(source, about.get("first", 0))
    header = replace(header, **about)
    blocks = read_ahead(blocks, _BLOCKS_AHEAD)
    vocabulary = vocabulary_of(source)
    names = {} if vocabulary is None else _names_to_write(header, vocabulary)
    metadata = packed(header, vocabulary)
    schema = header.schema.with_metadata(metadata)
    metadata_digest = digest(metadata)
    writer = new_writer(file, schema)
    sequences, entries, unknown = 0, 0, 0
    for k, block in enumerate(blocks):
        batch = _batch(block, schema, names)
        writer.write_batch(batch, custom_metadata={CHECKSUM: b"%d" % checksum(batch, metadata_digest, k)})
        sequences += int(np.count_nonzero(block.starts))
        entries += int(block.offsets[-1] - block.offsets[0])
        unknown += int(np.count_nonzero(block.labels == NO_LABEL))
    if (sequences, entries) != (header.sequences, header.entries) or (header.labelled and unknown):
        raise BadChain(
            f"the source has {sequences} sequences, {entries} attributes in all and {unknown} unknown labels, and had "
            f"said otherwise."
        )
    writer.close()


def _surveyed(source: Source, begin: int = 0) -> tuple[Header, Iterable[Block]]:
    """The header, which is written first, and the blocks to write."""
    if source.positions < 1:
        raise EmptyChain
    rows = _rows_of(source)
    blocks: Iterable[Block] = _checked_blocks(source, rows, begin)
    if hasattr(source, "sequences"):
        first = next(iter(blocks))
        blocks = one_after_another([first], blocks)
        sequences, entries = int(source.sequences), round(source.active * source.positions)
        extras = {name for name in _EXTRAS if getattr(source, name, name in _extras_of(first))}
    else:
        sequences, entries, extras = 0, 0, set()
        for block in blocks:
            sequences += int(np.count_nonzero(block.starts))
            entries += int(block.offsets[-1] - block.offsets[0])
            extras |= _extras_of(block)
        blocks = _checked_blocks(source, rows, begin)
    return _header(source, rows, sequences, entries, extras), blocks


def _rows_of(source: Source) -> int:
    """Positions in a batch: blocks of engines fit."""
    return min(1 << int(max(math.log2(_MOST_ENTRIES / max(source.active, 1.0)), 0)), MOST_ROWS)


def _extras_of(block: Block) -> set[str]:
    """The columns, of those that may be left out, that a block needs."""
    arrays = (block.values, block.edge_values, block.weights)
    return {name for name, array in zip(_EXTRAS, arrays, strict=True) if array.size}


def _checked_blocks(source: Source, rows: int, begin: int = 0) -> Iterator[Block]:
    """begin: the position of the chain at which the source begins."""
    for low in range(0, source.positions, rows):
        high = min(low + rows, source.positions)
        block = source.block(low, high)
        check_block(block, begin + low, begin + high, source.n_labels, source.n_attributes, source.n_edge_attributes)
        yield block


def _header(source: Source, rows: int, sequences: int, entries: int, extras: set[str]) -> Header:
    vocabulary = vocabulary_of(source)
    meaning: dict[str, Any] = {}
    if vocabulary is not None:
        for name in ("labels", "label", "hash_bits", "min_count", "template", "columns"):
            meaning[name] = getattr(vocabulary, name)
        meaning["words"] = vocabulary.marks.shape[1]
        meaning["vocabulary"] = digest_of(vocabulary)
    return Header(
        positions=source.positions,
        entries=entries,
        sequences=sequences,
        n_labels=source.n_labels,
        n_attributes=source.n_attributes,
        n_edge_attributes=source.n_edge_attributes,
        active=entries / source.positions,
        labelled=bool(source.labelled),
        valued="valued" in extras,
        edge_valued="edge_valued" in extras,
        weighted="weighted" in extras,
        named=vocabulary is not None and vocabulary.attributes is not None,
        edge_named=vocabulary is not None and vocabulary.edge_attributes is not None,
        batch=rows,
        **meaning,
    )


def _names_to_write(header: Header, vocabulary: Vocabulary) -> dict[str, Any]:
    """The dictionary of each kind of ids, one and the same array for all batches; raises unless all sizes agree."""
    names = {STATE: vocabulary.attributes, EDGE: vocabulary.edge_attributes}
    names = {prefix: array for prefix, array in names.items() if array is not None}
    for array in names.values():
        array.validate(full=True)
        if array.null_count:
            raise BadChain("its vocabulary has attributes without a name.")
    for what, count, found in (
        ("labels", header.n_labels, len(vocabulary.labels)),
        ("attributes", header.n_attributes, vocabulary.counts.size),
        ("attributes", header.n_attributes, len(vocabulary.marks)),
        ("attributes", header.n_attributes, len(names.get(STATE, vocabulary.counts))),
        ("edge attributes", header.n_edge_attributes, len(names.get(EDGE, range(header.n_edge_attributes)))),
    ):
        if count != found:
            raise BadChain(f"it has {count} {what}, but its vocabulary knows {found}.")
    return names


def _batch(block: Block, schema: Any, names: dict[str, Any]) -> Any:
    columns = {"label": pa.array(block.labels), "start": pa.array(block.starts.view(np.uint8))}
    if "weight" in schema.names:
        columns["weight"] = pa.array(block.weights if block.weights.size else np.ones(block.labels.size))
    elif block.weights.size:
        raise BadChain("some of its positions have weights, and its first ones had none.")
    for prefix, offsets, ids, values in (
        (STATE, block.offsets, block.ids, block.values),
        (EDGE, block.edge_offsets, block.edge_ids, block.edge_values),
    ):
        if f"{prefix}ids" not in schema.names:
            continue
        ends, part = pa.array(offsets - offsets[0]), slice(offsets[0], offsets[-1])
        entries = pa.array(ids[part])
        if prefix in names:
            entries = pa.DictionaryArray.from_arrays(entries, names[prefix], safe=False)  # `check_block` has looked
        columns[f"{prefix}ids"] = pa.LargeListArray.from_arrays(ends, entries)
        if f"{prefix}values" in schema.names:
            numbers = values[part] if values.size else np.ones(len(entries))
            columns[f"{prefix}values"] = pa.LargeListArray.from_arrays(ends, pa.array(numbers))
        elif values.size:
            raise BadChain("some of its attributes have values, and its first ones had none.")
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
