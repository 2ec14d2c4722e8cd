"""The parts of a chain that engines read: blocks of arrays, and the sources that give them.

    Block       the arrays of positions low … high-1
    Source      anything that gives its positions as blocks: a chain in memory, a stored or a synthetic chain, a view

Position t has the attributes ids[offsets[t] : offsets[t + 1]], with the values beside them or, if `values` is empty,
all of value one; edge attributes likewise. A start mark separates a position from the sequence before it. Positions and
entries are counted in int64.

A sequence may have a weight w, which all of its positions bear, and counts like w copies of it: a factor on its log Z,
its score and its counts. A sequence of weight 0 counts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadChain, BadSetting, LabelOutOfRange
from chainfold.system.validate import MOST_WEIGHT

NO_LABEL = -1
"""The label of a position whose label is unknown."""

MOST_LABELS = 65535
"""Labels are kept in 16 bits; a transition matrix of this size takes 34 GB."""

MOST_IDS, _MOST_INT64 = 2**31 - 1, 2**63 - 1

Entries = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
"""Offsets, ids and values of the attributes of one kind."""


def frozen(values: ArrayLike | None, dtype: Any) -> NDArray[Any]:
    """A contiguous read-only array; kernels are compiled for these alone."""
    array = np.ascontiguousarray([] if values is None else values, dtype=dtype).view()
    array.flags.writeable = False
    return array


class Block(NamedTuple):
    """Positions low … high-1 of a chain, as a source's `block(low, high)` gives them.

    Offsets point into the ids of the block and need not begin at zero.

    >>> from chainfold import SyntheticChain
    >>> block = SyntheticChain(10, 2, 6, 3).block(4, 8)
    >>> block.labels.size, block.offsets.tolist()
    (4, [0, 3, 6, 9, 12])
    """

    labels: NDArray[np.int32]  # [B], -1 where unknown
    starts: NDArray[np.bool_]  # [B]
    offsets: NDArray[np.int64]  # [B + 1]
    ids: NDArray[np.int32]  # [entries]
    values: NDArray[np.float64]  # [entries], or empty: all ones
    edge_offsets: NDArray[np.int64]  # [B + 1], or empty: no edge attributes
    edge_ids: NDArray[np.int32]
    edge_values: NDArray[np.float64]
    weights: NDArray[np.float64] = frozen(None, np.float64)  # [B] of the positions' sequences, or empty: all ones

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
        """Bytes of these positions, without the rest of larger arrays that they are views of."""
        size = self.labels.nbytes + self.starts.nbytes + self.offsets.nbytes + self.edge_offsets.nbytes
        size += self.weights.nbytes
        for offsets, ids, values in entries_of(self):
            if offsets.size:
                entries = int(offsets[-1] - offsets[0])
                size += entries * (ids.itemsize + (values.itemsize if values.size else 0))
        return size


class KnownBlock(NamedTuple):
    """Positions as the model sees them."""

    block: Block  # its labels are those that the model knows, else -1
    gold: NDArray[np.int32]  # [B] all labels: those that the model never saw come after its own, -1 is unknown
    ended: bool = False  # is it known that the sequence ends with the last position, or has ended before?


class Source(Protocol):
    """The interface of chains: their sizes, and any of their positions as a `Block`.

    Anything with these members is a source. A source may have a `vocabulary`.

    >>> from chainfold import Chain
    >>> def first_labels(source: Source) -> list[int]:
    ...     return source.block(0, 2).labels.tolist()
    >>> first_labels(Chain.from_arrays(offsets=[0, 1, 2], ids=[0, 1], labels=[1, 0]))
    [1, 0]
    """

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


def has_weights(source: Source) -> bool:
    """Whether its sequences have weights."""
    return source.block(0, 1).weights.size > 0


@runtime_checkable
class Releasable(Protocol):
    """A source that holds data for its next blocks, and can free it."""

    def release(self) -> None: ...


def vocabulary_of(source: Source) -> Vocabulary | None:
    """What the numbers of a source stand for, where that is known."""
    vocabulary: Vocabulary | None = getattr(source, "vocabulary", None)
    return vocabulary


def checked_labels(labels: ArrayLike, positions: int, n_labels: int | None) -> NDArray[np.int32]:
    """Labels of positions, -1 where unknown; without n_labels, as many as there may be."""
    array = integers(labels, "labels")
    if array.size != positions:
        raise BadChain(f"there are {positions} positions, but {array.size} labels.")
    count = min(int(array.max()) + 1, MOST_LABELS) if n_labels is None else n_labels
    if not isinstance(count, (int, np.integer)) or not 1 <= count <= MOST_LABELS:
        raise BadSetting("n_labels", count, f"a whole number from 1 to {MOST_LABELS}")
    wrong = np.flatnonzero((array < NO_LABEL) | (array >= count))
    if wrong.size:
        raise LabelOutOfRange(int(wrong[0]), int(array[wrong[0]]), count)
    return frozen(array, np.int32)


def checked_weights(weights: ArrayLike, of: str, size: int) -> NDArray[np.float64]:
    """A weight from 0 to `MOST_WEIGHT` for each of some positions or sequences; of: what they are, in the singular."""
    array = reals(weights, "weights")
    if array.size != size:
        raise BadChain(f"there are {size} {of}s, but {array.size} weights; give one for each {of}.")
    wrong = np.flatnonzero(~((array >= 0.0) & (array <= MOST_WEIGHT)))
    if wrong.size:
        raise BadChain(f"{of} {int(wrong[0])} has weight {array[wrong[0]]}; weights are from 0 to {MOST_WEIGHT}.")
    return array


def position_weights(weights: ArrayLike, starts: NDArray[np.bool_], low: int = 0) -> NDArray[np.float64]:
    """Weights of the positions from `low` on, if all positions of a sequence have one weight."""
    array = checked_weights(weights, "position", starts.size)
    wrong = np.flatnonzero((array[1:] != array[:-1]) & ~starts[1:])
    if wrong.size:
        before, here = array[wrong[0] : wrong[0] + 2].tolist()
        raise BadChain(
            f"position {low + int(wrong[0]) + 1} has weight {here}, but the position before it in its sequence has "
            f"{before}; give all positions of a sequence one weight."
        )
    return array


def reals(values: ArrayLike | None, what: str) -> NDArray[np.float64]:
    """Real numbers in one dimension."""
    try:
        array = frozen(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadChain(f"the {what} are not numbers.") from None
    if array.ndim != 1:
        raise BadChain(f"the {what} have {array.ndim} dimensions; give one row of numbers.")
    return array


def integers(values: ArrayLike, what: str) -> NDArray[np.int64]:
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


_DTYPES = tuple(map(np.dtype, ("i4", "b1", "i8", "i4", "f8", "i8", "i4", "f8", "f8")))  # of the fields of a block


def check_block(block: Block, low: int, high: int, n_labels: int, n_attributes: int, n_edge_attributes: int) -> None:
    """Raise unless kernels may read the block: they look at no bound, and a source may be damaged or mistaken."""
    where = f"the source's positions {low} to {high - 1}"
    arrays: Iterable[NDArray[Any]] = block
    for name, dtype, array in zip(Block._fields, _DTYPES, arrays, strict=True):
        if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
            raise BadChain(f"{where}: {name} is not a contiguous row of {dtype.name}.")
    if block.labels.size != high - low or block.starts.size != high - low:
        raise BadChain(f"{where} are {block.labels.size} labels and {block.starts.size} start marks.")
    if block.weights.size:
        position_weights(block.weights, block.starts, low)
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


def entries_of(block: Block) -> tuple[Entries, Entries]:
    """Attributes and edge attributes of a block."""
    return (block.offsets, block.ids, block.values), (block.edge_offsets, block.edge_ids, block.edge_values)


def join_blocks(parts: Iterable[Block]) -> Block:
    """Several blocks, copied into one; `parts` is iterated over twice, first for the sizes."""
    rows = weighted = 0
    counts = np.zeros((2, 3), np.int64)  # for each kind of attributes: parts with offsets, entries, parts with values
    for part in parts:
        rows += part.labels.size
        weighted += part.weights.size
        for count, (offsets, _, values) in zip(counts, entries_of(part), strict=True):
            if offsets.size:
                count += (1, offsets[-1] - offsets[0], values.size > 0)
    labels, starts, weights = np.empty(rows, np.int32), np.empty(rows, np.bool_), np.empty(weighted)
    joined = [
        (np.zeros(rows + 1 if there else 0, np.int64), np.empty(entries, np.int32), np.empty(entries if valued else 0))
        for there, entries, valued in counts.tolist()
    ]
    low, filled = 0, [0, 0]
    for part in parts:
        high = low + part.labels.size
        labels[low:high], starts[low:high] = part.labels, part.starts
        if weighted:
            weights[low:high] = part.weights
        for kind, (offsets, ids, values) in enumerate(entries_of(part)):
            if offsets.size:
                own, begin = slice(offsets[0], offsets[-1]), filled[kind]
                filled[kind] = end = begin + int(offsets[-1] - offsets[0])
                joined[kind][0][low + 1 : high + 1] = offsets[1:] + (begin - offsets[0])
                joined[kind][1][begin:end] = ids[own]
                if joined[kind][2].size:
                    joined[kind][2][begin:end] = values[own] if values.size else 1.0
        low = high
    state, edge = (
        (frozen(offsets, np.int64), frozen(ids, np.int32), frozen(values, np.float64))
        for offsets, ids, values in joined
    )
    return Block(frozen(labels, np.int32), frozen(starts, np.bool_), *state, *edge, frozen(weights, np.float64))
