"""One long chain with start marks, as flat arrays.

A sentence, a trace or a genome is a stretch of the chain; a start mark at its first position cuts it from what comes
before. The attributes of position t are ids[offsets[t] : offsets[t+1]], with real values beside them or, if `values` is
empty, all of value one; edge attributes likewise. Everything that counts positions or entries is int64.

A position may have a weight: the log likelihood is then Σ_t w_t log p(y_t | y_{t+1}, x up to t), the chain rule read
from the end. A sequence whose positions all weigh w counts like w copies of it.

    Source      anything that can give its positions lo … hi-1 as a Block: a Chain, a synthetic or a stored chain
    Block       the arrays of a stretch of positions, what the kernels see
    Chain       the arrays of a whole chain in memory
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.data.vocabulary import Vocabulary
from chainfold.errors import (
    AttributeOutOfRange,
    BadChain,
    BadSetting,
    EmptyChain,
    LabelOutOfRange,
    ValueNotFinite,
)
from chainfold.kernels.scores import MOST_LABELS, NO_LABEL
from chainfold.restored import MOST_WEIGHT

MOST_IDS, _MOST_INT64 = 2**31 - 1, 2**63 - 1


def frozen(values: ArrayLike | None, dtype: Any) -> NDArray[Any]:
    """A contiguous read-only array; kernels are compiled for these alone, whatever memory they view."""
    array = np.ascontiguousarray([] if values is None else values, dtype=dtype).view()
    array.flags.writeable = False
    return array


class Block(NamedTuple):
    """Positions lo … hi-1 of a chain. Offsets point into ids as they are given here, and need not begin at zero."""

    labels: NDArray[np.int32]  # [B], -1 where unknown
    starts: NDArray[np.bool_]  # [B]
    offsets: NDArray[np.int64]  # [B + 1]
    ids: NDArray[np.int32]  # [entries]
    values: NDArray[np.float64]  # [entries], or empty: all ones
    edge_offsets: NDArray[np.int64]  # [B + 1], or empty: no edge attributes
    edge_ids: NDArray[np.int32]
    edge_values: NDArray[np.float64]
    weights: NDArray[np.float64] = frozen(None, np.float64)  # [B], or empty: all ones

    def part(self, low: int, high: int) -> Block:
        """Positions low … high-1 of it, as views."""
        return self._replace(
            labels=self.labels[low:high],
            starts=self.starts[low:high],
            offsets=self.offsets[low : high + 1],
            edge_offsets=self.edge_offsets[low : high + 1],
            weights=self.weights[low:high],
        )

    @property
    def nbytes(self) -> int:
        """The bytes that these positions take, whatever larger arrays they are views of."""
        size = self.labels.nbytes + self.starts.nbytes + self.offsets.nbytes + self.edge_offsets.nbytes
        size += self.weights.nbytes
        for offsets, ids, values in (
            (self.offsets, self.ids, self.values),
            (self.edge_offsets, self.edge_ids, self.edge_values),
        ):
            if offsets.size:
                entries = int(offsets[-1] - offsets[0])
                size += entries * (ids.itemsize + (values.itemsize if values.size else 0))
        return size


class Source(Protocol):
    """A chain that engines can read: its sizes, and any stretch of it as a block."""

    @property
    def positions(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    @property
    def n_attributes(self) -> int: ...
    @property
    def n_edge_attributes(self) -> int: ...
    @property
    def active(self) -> float:
        """Attributes a position, on average."""
        ...

    @property
    def labelled(self) -> bool:
        """Is every label known?"""
        ...

    def block(self, low: int, high: int) -> Block: ...


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain in memory; make one with `Chain.from_arrays`."""

    labels: NDArray[np.int32]
    starts: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.float64]
    edge_offsets: NDArray[np.int64]
    edge_ids: NDArray[np.int32]
    edge_values: NDArray[np.float64]
    weights: NDArray[np.float64]
    n_labels: int
    n_attributes: int
    n_edge_attributes: int
    vocabulary: Vocabulary | None = None

    @classmethod
    def from_arrays(
        cls,
        *,
        offsets: ArrayLike,
        ids: ArrayLike,
        values: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        starts: ArrayLike | None = None,
        edge_offsets: ArrayLike | None = None,
        edge_ids: ArrayLike | None = None,
        edge_values: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        n_labels: int | None = None,
        n_attributes: int | None = None,
        n_edge_attributes: int | None = None,
    ) -> Chain:
        """Check the arrays and make a chain of them; sizes that are not given are taken from the largest id.

        Without labels the chain can be scored but not learnt from. Without start marks it is one sequence; its first
        position is a start in any case. Without values every attribute has the value one, without weights every
        position the weight one.
        """
        positions = _integers(offsets, "offsets").size - 1
        if positions < 1:
            raise EmptyChain
        if edge_offsets is None and (edge_ids is not None or edge_values is not None):
            raise BadChain("there are edge attributes but no edge_offsets to say which positions they belong to.")
        start_marks = _start_marks(starts, positions)
        if labels is None and n_labels is None:
            raise BadChain("a chain without labels needs n_labels, the number of labels there are.")
        label_ids = checked_labels(np.full(positions, NO_LABEL) if labels is None else labels, positions, n_labels)
        state = _entries("attribute", offsets, ids, values, positions, n_attributes)
        if edge_offsets is None:
            edge = (frozen(None, np.int64), frozen(None, np.int32), frozen(None, np.float64), 0)
        else:
            edge = _entries("edge attribute", edge_offsets, edge_ids, edge_values, positions, n_edge_attributes)
        return cls(
            labels=label_ids,
            starts=frozen(start_marks, np.bool_),
            offsets=state[0],
            ids=state[1],
            values=state[2],
            edge_offsets=edge[0],
            edge_ids=edge[1],
            edge_values=edge[2],
            weights=checked_weights(weights, positions),
            n_labels=int(label_ids.max()) + 1 if n_labels is None else int(n_labels),
            n_attributes=state[3],
            n_edge_attributes=edge[3],
        )

    @classmethod
    def from_sequences(
        cls,
        sequences: Iterable[Any],
        labels: Iterable[Any] | None = None,
        *,
        weights: Iterable[float] | None = None,
        min_count: int = 1,
        hash_bits: int | None = None,
    ) -> Chain:
        """Sequences of items, each a dict of strings, numbers and bools or a collection of strings; labels likewise.

        A weight is that of a sequence. Iterators are read once. `encode_sequences` writes them to disk instead.
        """
        from chainfold.data.encode import chain_of_sequences

        return chain_of_sequences(sequences, labels, weights, min_count, hash_bits)

    @classmethod
    def from_table(cls, table: Any, **options: Any) -> Chain:
        """A table of Arrow, pandas, polars or NumPy; the options are those of `encode`, which writes it to disk."""
        from chainfold.data.encode import chain_of_table

        return chain_of_table(table, **options)

    @classmethod
    def from_matrix(
        cls,
        rows: Any,
        labels: ArrayLike | None = None,
        *,
        starts: ArrayLike | None = None,
        n_labels: int | None = None,
    ) -> Chain:
        """A SciPy sparse or NumPy matrix: a position for each row, an attribute for each column.

        Labels are numbers or texts; sequences start at the positions, or the marks, given.
        """
        from chainfold.data.matrix import chain_of_matrix

        return chain_of_matrix(rows, labels, starts, n_labels)

    def with_vocabulary(self, vocabulary: Vocabulary) -> Chain:
        """The same chain with names for its numbers."""
        return replace(self, vocabulary=vocabulary)

    @property
    def positions(self) -> int:
        return self.labels.size

    @property
    def active(self) -> float:
        return self.ids.size / self.positions

    @cached_property
    def labelled(self) -> bool:
        return bool((self.labels != NO_LABEL).all())

    def block(self, low: int, high: int) -> Block:
        return self._whole.part(low, high)

    @cached_property
    def _whole(self) -> Block:
        return Block(*(getattr(self, name) for name in Block._fields))


def gather(source: Source, positions: int | None = None) -> Chain:
    """A source in memory, or its first positions."""
    block = source.block(0, min(positions or source.positions, source.positions))
    return Chain(
        *block,
        n_labels=source.n_labels,
        n_attributes=source.n_attributes,
        n_edge_attributes=source.n_edge_attributes,
        vocabulary=vocabulary_of(source),
    )


def has_weights(source: Source) -> bool:
    """Do its positions have weights?"""
    return source.block(0, 1).weights.size > 0


def vocabulary_of(source: Source) -> Vocabulary | None:
    """What the numbers of a source stand for, where that is known."""
    vocabulary: Vocabulary | None = getattr(source, "vocabulary", None)
    return vocabulary


def checked_labels(labels: ArrayLike, positions: int, n_labels: int | None) -> NDArray[np.int32]:
    """Labels of positions, -1 where unknown; without n_labels, as many as there may be."""
    array = _integers(labels, "labels")
    if array.size != positions:
        raise BadChain(f"there are {positions} positions, but {array.size} labels.")
    count = min(int(array.max()) + 1, MOST_LABELS) if n_labels is None else n_labels
    if not isinstance(count, (int, np.integer)) or not 1 <= count <= MOST_LABELS:
        raise BadSetting("n_labels", count, f"a whole number from 1 to {MOST_LABELS}")
    wrong = np.flatnonzero((array < NO_LABEL) | (array >= count))
    if wrong.size:
        raise LabelOutOfRange(int(wrong[0]), int(array[wrong[0]]), count)
    return frozen(array, np.int32)


def _start_marks(starts: ArrayLike | None, positions: int) -> NDArray[np.bool_]:
    """Marks, of which the first is always set."""
    marks = np.zeros(positions, bool) if starts is None else np.array(starts)
    if marks.shape != (positions,):
        raise BadChain(f"there are {positions} positions by the offsets, but {marks.size} start marks.")
    if marks.dtype != bool and not ((marks == 0) | (marks == 1)).all():
        raise BadChain("the start marks are not all True or False; give a mark for each position.")
    marks = marks.astype(bool)
    marks[0] = True
    return marks


def checked_weights(weights: ArrayLike | None, positions: int) -> NDArray[np.float64]:
    """Weights of positions, from 0 to `MOST_WEIGHT`."""
    array = _reals(weights, "weights of positions")
    if weights is not None and array.shape != (positions,):
        raise BadChain(f"there are {positions} positions, but {array.size} weights of positions.")
    wrong = np.flatnonzero(~((array >= 0.0) & (array <= MOST_WEIGHT)))
    if wrong.size:
        raise BadChain(f"position {int(wrong[0])} has weight {array[wrong[0]]}; weights are from 0 to {MOST_WEIGHT}.")
    return array


def _entries(
    kind: str,
    offsets: ArrayLike,
    ids: ArrayLike | None,
    values: ArrayLike | None,
    positions: int,
    count: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], int]:
    """Checked offsets, ids and values of the attributes of one kind, and how many there are."""
    ends = frozen(_integers(offsets, f"{kind} offsets"), np.int64)
    entries = _integers([] if ids is None else ids, f"{kind} ids")
    reals = _reals(values, f"{kind} values")
    if ends.size != positions + 1:
        raise BadChain(f"the {kind} offsets are {ends.size} numbers; {positions} positions need {positions + 1}.")
    steps = np.flatnonzero(np.diff(ends) < 0)
    if steps.size:
        raise BadChain(f"the {kind} offsets fall at position {int(steps[0])}; they must never do so.")
    if ends[0] != 0 or ends[-1] != entries.size:
        raise BadChain(f"the {kind} offsets go from {ends[0]} to {ends[-1]}, but there are {entries.size} ids.")
    if reals.size not in (0, entries.size):
        raise BadChain(f"there are {entries.size} {kind} ids, but {reals.size} values.")
    size = (int(entries.max()) + 1 if entries.size else 0) if count is None else count
    if not isinstance(size, (int, np.integer)) or not 0 <= size <= MOST_IDS:
        raise BadSetting(f"the number of {kind}s", size, f"a whole number from 0 to {MOST_IDS}")
    wrong = np.flatnonzero((entries < 0) | (entries >= size))
    if wrong.size:
        raise AttributeOutOfRange(position_of(ends, wrong[0]), int(entries[wrong[0]]), size, kind)
    wrong = np.flatnonzero(~np.isfinite(reals))
    if wrong.size:
        raise ValueNotFinite(position_of(ends, wrong[0]), float(reals[wrong[0]]), f"an {kind}")
    return ends, frozen(entries, np.int32), reals, size


def _reals(values: ArrayLike | None, what: str) -> NDArray[np.float64]:
    """Real numbers in one dimension."""
    try:
        array = frozen(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadChain(f"the {what} are not numbers.") from None
    if array.ndim != 1:
        raise BadChain(f"the {what} have {array.ndim} dimensions; give one row of numbers.")
    return array


def _integers(values: ArrayLike, what: str) -> NDArray[np.int64]:
    """Whole numbers in one dimension, and nothing that would only become so by a cast."""
    try:
        array = np.asarray(values)
        whole = array.astype(np.int64) if array.size == 0 or array.dtype.kind in "iub" else np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        raise BadChain(f"the {what} are not whole numbers.") from None
    if array.dtype.kind == "u" and array.size and array.max() > _MOST_INT64:
        wrong = np.flatnonzero(array.ravel() > _MOST_INT64)
        raise BadChain(f"number {int(wrong[0])} of the {what} is {array.ravel()[wrong[0]]}, which is too large.")
    if whole.ndim != 1:
        raise BadChain(f"the {what} have {whole.ndim} dimensions; give one row of numbers.")
    if whole.dtype.kind == "f":
        wrong = np.flatnonzero(~(np.abs(whole) < 2**53) | (whole != np.trunc(np.nan_to_num(whole))))
        if wrong.size:
            raise BadChain(f"number {int(wrong[0])} of the {what} is {whole[wrong[0]]}, which is no whole number.")
    return whole.astype(np.int64)


def check_block(block: Block, low: int, high: int, n_labels: int, n_attributes: int, n_edge_attributes: int) -> None:
    """Raise unless kernels may read the block: they look at no bound, and a source may be damaged or mistaken."""
    where = f"the source's positions {low} to {high - 1}"
    kinds = ("i4", "b1", "i8", "i4", "f8", "i8", "i4", "f8", "f8")
    for name, kind in zip(Block._fields, kinds, strict=True):
        array: NDArray[Any] = getattr(block, name)
        if array.dtype != kind or array.ndim != 1 or not array.flags.c_contiguous:
            raise BadChain(f"{where}: {name} is not a contiguous row of {np.dtype(kind).name}.")
    if block.labels.size != high - low or block.starts.size != high - low:
        raise BadChain(f"{where} are {block.labels.size} labels and {block.starts.size} start marks.")
    if block.weights.size:
        checked_weights(block.weights, high - low)
    if low == 0 and not block.starts[0]:
        raise BadChain(f"{where}: the first position of a chain must be a start.")
    if not _within(block.labels, NO_LABEL, n_labels - 1):
        raise BadChain(f"{where} have a label that is not from 0 to {n_labels - 1}.")
    for kind, count, offsets, ids, values in (
        ("attribute", n_attributes, block.offsets, block.ids, block.values),
        ("edge attribute", n_edge_attributes, block.edge_offsets, block.edge_ids, block.edge_values),
    ):
        if kind == "edge attribute" and count == 0 and offsets.size == 0:
            continue
        if offsets.size != high - low + 1 or not _ascending(offsets, ids.size) or values.size not in (0, ids.size):
            raise BadChain(f"{where} have {kind} offsets, ids and values that do not belong together.")
        if not _within(ids[offsets[0] : offsets[-1]], 0, count - 1):
            raise BadChain(f"{where} have an {kind} that is not from 0 to {count - 1}.")


def _within(numbers: NDArray[np.int32], least: int, most: int) -> bool:
    return numbers.size == 0 or bool(numbers.min() >= least and numbers.max() <= most)


def _ascending(offsets: NDArray[np.int64], entries: int) -> bool:
    return bool(offsets[0] >= 0 and offsets[-1] <= entries and (offsets[1:] >= offsets[:-1]).all())


def position_of(offsets: NDArray[np.int64], entry: int) -> int:
    """The position to which an entry belongs."""
    return int(np.searchsorted(offsets, entry, side="right")) - 1
