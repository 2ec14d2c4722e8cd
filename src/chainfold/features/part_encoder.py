"""One job of an encoding in parts: statistics of numbers, a first pass with ids of its own, a second with final ids.

A job reads its rows, and around them those that the template looks at or that tell whether a sequence goes on. The
first pass gives ids by first appearance in the job and counts them; after all are merged, the second pass writes the
part with the ids of the vocabulary. Both write whole files under names of their own, so that a job can be done
anywhere and more than once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, Entries, entries_of, join_blocks
from chainfold.chain.builder import Census, Names
from chainfold.chain.entries import without_gaps
from chainfold.chain.header import Header
from chainfold.chain.part_index import Part, WholeFile, part_name
from chainfold.chain.stored import write_part
from chainfold.errors import BadFile
from chainfold.features.encoder import AttributeCounts, Lexicon, Numbered, Numberer
from chainfold.features.numbers import NumberStatistics
from chainfold.features.part_files import read_arrays, write_arrays
from chainfold.features.part_plan import PartsEncoding
from chainfold.features.schema import Schema
from chainfold.features.spool import frozen_block
from chainfold.readers.inputs import Meter
from chainfold.readers.pieces import PieceReader
from chainfold.system.prefetch import read_ahead
from chainfold.system.storage import storage_of

T = TypeVar("T")

BLOCKS, SUMMARY, NUMBERS, PART = "blocks", "summary", "numbers", "part"  # kinds of working files


class Sizes(NamedTuple):
    """How much there is in a job, or in all of them."""

    positions: int = 0
    sequences: int = 0
    unlabelled: int = 0
    entries: int = 0
    edge_entries: int = 0
    valued: int = 0  # 1 if any entry has a value other than one
    edge_valued: int = 0
    weighted: int = 0

    def then(self, block: Block) -> Sizes:
        """The sizes with further positions."""
        return self.and_those(
            Sizes(
                block.labels.size,
                int(np.count_nonzero(block.starts)),
                int(np.count_nonzero(block.labels == NO_LABEL)),
                block.ids.size,
                block.edge_ids.size,
                int(block.values.size > 0),
                int(block.edge_values.size > 0),
                int(block.weights.size > 0),
            )
        )

    def and_those(self, other: Sizes) -> Sizes:
        """The sizes of both."""
        sums = [a + b for a, b in zip(self[:5], other[:5], strict=True)]
        flags = [a | b for a, b in zip(self[5:], other[5:], strict=True)]
        return Sizes(*sums, *flags)


class Merged(NamedTuple):
    """The facts about all jobs that the second pass needs."""

    header: Header  # of the chain
    vocabulary: WholeFile
    firsts: tuple[int, ...]  # the position at which each job begins


def survey(encoding: PartsEncoding, job: int, progress: Meter | None = None) -> NumberStatistics:
    """The statistics of a job's numbers, for scales and bins."""

    def surveyed(rows: PieceReader) -> NumberStatistics:
        statistics = NumberStatistics(encoding.template)
        for stretch in rows.rows(encoding.jobs[job]):
            statistics.add(stretch)
        return statistics

    return _with_true_lines(encoding, surveyed, progress)


def first_pass(encoding: PartsEncoding, job: int, progress: Meter | None = None) -> int:
    """Encode the rows of a job with ids of its own; returns the number of positions."""
    return _with_true_lines(encoding, lambda rows: _first_pass(encoding, job, rows), progress)


def _with_true_lines(encoding: PartsEncoding, work: Callable[[PieceReader], T], progress: Meter | None) -> T:
    """Do it; where a line is wrong, do it again for the line's number, as those before the job have to be counted."""
    try:
        return work(encoding.reader(progress))
    except BadFile:
        return work(encoding.reader(numbered=True))


def _first_pass(encoding: PartsEncoding, job: int, rows: PieceReader) -> int:
    schema = encoding.schema(rows.first)
    counted = _Counted(schema)
    pieces, storage = encoding.jobs[job], storage_of(encoding.output)
    with storage.written(encoding.working(BLOCKS, job), lasting=False) as file:
        blocks = map(counted.keep, counted.numbered(rows, pieces))
        write_arrays(file, (block._asdict() for block in blocks))
    with storage.written(encoding.working(SUMMARY, job), lasting=False) as file:
        # numbers of files, and their rows
        read = {"files": [*rows.counted], "rows": [*rows.counted.values()], "hashes": rows.hashes}
        arrays = {name: np.array(values, np.int64) for name, values in read.items()}
        write_arrays(file, iter([counted.summary() | arrays]))
    return counted.sizes.positions


class _Counted:
    """The names and counts of a job."""

    def __init__(self, schema: Schema) -> None:
        self._lexicon = Lexicon.new(schema)
        self._numberer = Numberer(schema, self._lexicon)
        self._counts, self.sizes = AttributeCounts(), Sizes()

    def numbered(self, rows: PieceReader, pieces: Any) -> Iterator[Numbered]:
        """The positions of the pieces, with what is around them."""
        numberer = self._numberer
        across = not numberer.marked
        before = rows.before(pieces[0], max(numberer.left, 1), across)
        own = read_ahead(rows.rows(pieces))
        return numberer.numbered_between(before, own, lambda: rows.after(pieces[-1], numberer.right, across))

    def keep(self, numbered: Numbered) -> Block:
        """Count the attributes of the positions."""
        self._counts.add(numbered)
        self.sizes = self.sizes.then(numbered.block)
        return numbered.block

    def summary(self) -> dict[str, Any]:
        """The names and counts, to be merged with those of other jobs."""
        state = _totals(self._lexicon.names, self._counts.state)
        edge = _totals(self._lexicon.edge_names, self._counts.edge)
        return {
            "labels": pa.array(self._lexicon.labels.names, pa.large_string()),
            **dict(zip(("names", "ids", "counts", "marks"), state, strict=True)),
            **dict(zip(("edge_names", "edge_ids", "edge_counts", "edge_marks"), edge, strict=True)),
            "groups": self._numberer.groups,
            "sizes": np.array(self.sizes),
        }


def _totals(names: Names, census: Census) -> tuple[Any, NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64]]:
    """The names in the order of their ids, or the ids that occur; counts, and marks one after another."""
    counts, marks = census.totals(len(names))
    strings, ids = names.strings(), np.empty(0, np.int32)
    if strings is None:
        ids = np.flatnonzero(counts).astype(np.int32)
        strings, counts, marks = pa.array([], pa.large_string()), counts[ids], marks[ids]
    return strings, ids, np.ascontiguousarray(counts), np.ascontiguousarray(marks).reshape(-1)


def second_pass(encoding: PartsEncoding, merged: Merged, job: int) -> Part | None:
    """Write the part of a job with the numbers of the vocabulary; None if it has no rows."""
    storage = storage_of(encoding.output)
    summary = working_file(encoding, SUMMARY, job)
    sizes = Sizes(*summary["sizes"].tolist())
    if not sizes.positions:
        return None
    source = _FinalPart(merged.header, sizes, summary, working_file(encoding, NUMBERS, job), _blocks(encoding, job))
    first = merged.firsts[job]
    with storage.digested(encoding.working(PART, job), partial(part_name, job)) as file:
        write_part(file, source, first, merged.header.vocabulary)
    name = part_name(job, file.sha256)
    return Part(name, first, sizes.positions, source.entries, sizes.sequences, file.size, file.sha256)


def working_file(encoding: PartsEncoding, kind: str, job: int) -> dict[str, Any]:
    """The arrays of a working file that has one row of them."""
    (row,) = read_arrays(storage_of(encoding.output), encoding.working(kind, job))
    return row


def _blocks(encoding: PartsEncoding, job: int) -> Iterator[Block]:
    rows = read_arrays(storage_of(encoding.output), encoding.working(BLOCKS, job))
    return (frozen_block(*(row[name] for name in Block._fields)) for row in rows if row["labels"].size)


class _FinalPart:
    """The positions of a job with final numbers, to be read once, in order."""

    def __init__(
        self, header: Header, sizes: Sizes, summary: dict[str, Any], numbers: dict[str, Any], blocks: Iterator[Block]
    ) -> None:
        self._numbers, self._blocks = numbers, blocks
        self._labels = np.append(numbers["labels"], np.int32(NO_LABEL))
        exact = header.hash_bits is None
        self._ids = numbers["ids"] if exact else None
        self._edge_ids = numbers["edge_ids"] if exact else None
        self.positions, self.sequences, self.labelled = sizes.positions, sizes.sequences, not sizes.unlabelled
        self.entries = int(summary["counts"][self._ids >= 0].sum()) if self._ids is not None else sizes.entries
        self.active = self.entries / sizes.positions
        self.n_labels, self.n_attributes = header.n_labels, header.n_attributes
        self.n_edge_attributes = header.n_edge_attributes
        self.valued, self.edge_valued, self.weighted = header.valued, header.edge_valued, header.weighted
        self._held: deque[Block] = deque()

    def block(self, low: int, high: int) -> Block:
        count, pieces = high - low, []
        while count:
            block = self._held.popleft() if self._held else self._renumbered(next(self._blocks))
            pieces.append(block.part(0, min(count, block.labels.size)))
            if block.labels.size > count:
                self._held.append(block.part(count, block.labels.size))
            count -= pieces[-1].labels.size
        return pieces[0] if len(pieces) == 1 else join_blocks(pieces)

    def _renumbered(self, block: Block) -> Block:
        state, edge = entries_of(block)
        edges = _final(edge, self._edge_ids) if self.n_edge_attributes else (None, None, None)
        return frozen_block(self._labels[block.labels], block.starts, *_final(state, self._ids), *edges, block.weights)


def _final(entries: Entries, numbers: NDArray[np.int32] | None) -> Entries:
    """Entries with their final ids, without those that are left out."""
    offsets, ids, values = entries
    return entries if numbers is None else without_gaps(offsets, numbers[ids], values)
