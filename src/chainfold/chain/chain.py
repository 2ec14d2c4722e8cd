"""A chain in memory: the arrays of all its positions.

A sentence, a trace or a genome is a part of the chain; a start mark at its first position separates it from the
sequence before. See `chain.block` for the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.chain.block import (
    MOST_IDS,
    NO_LABEL,
    Block,
    Source,
    checked_labels,
    frozen,
    integers,
    position_of,
    position_weights,
    reals,
    vocabulary_of,
)
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import AttributeOutOfRange, BadChain, BadSetting, EmptyChain, ValueNotFinite


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain in memory; `Chain.from_arrays` makes one.

    >>> chain = Chain.from_arrays(offsets=[0, 1, 3], ids=[0, 0, 1], labels=[0, 1])
    >>> chain.positions, chain.n_labels, chain.n_attributes
    (2, 2, 2)
    """

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
        """Check arrays and make a chain of them.

        offsets, ids, values   attributes: position t has ids[offsets[t] : offsets[t + 1]]; values default to one
        labels                 [T], -1 where unknown; without labels a chain can be tagged and not trained on
        starts                 [T] marks of the first positions of sequences; one sequence unless given
        edge_offsets, edge_ids, edge_values   edge attributes, likewise
        weights                [T] weights of sequences, the same at all positions of one; one unless given
        n_labels, n_attributes, n_edge_attributes   sizes; the largest number plus one unless given

        Returns a `Chain`. Raises `ChainfoldError` (`BadChain`) where the arrays do not fit together.
        """
        positions = integers(offsets, "offsets").size - 1
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
            weights=frozen(None, np.float64) if weights is None else position_weights(weights, start_marks),
            n_labels=int(label_ids.max()) + 1 if n_labels is None else int(n_labels),
            n_attributes=state[3],
            n_edge_attributes=edge[3],
        )

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


def _entries(
    kind: str,
    offsets: ArrayLike,
    ids: ArrayLike | None,
    values: ArrayLike | None,
    positions: int,
    count: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], int]:
    """Checked offsets, ids and values of the attributes of one kind, and how many there are."""
    ends = frozen(integers(offsets, f"{kind} offsets"), np.int64)
    entries = integers([] if ids is None else ids, f"{kind} ids")
    numbers = reals(values, f"{kind} values")
    if ends.size != positions + 1:
        raise BadChain(f"the {kind} offsets are {ends.size} numbers; {positions} positions need {positions + 1}.")
    steps = np.flatnonzero(np.diff(ends) < 0)
    if steps.size:
        raise BadChain(f"the {kind} offsets fall at position {int(steps[0])}; they must never do so.")
    if ends[0] != 0 or ends[-1] != entries.size:
        raise BadChain(f"the {kind} offsets go from {ends[0]} to {ends[-1]}, but there are {entries.size} ids.")
    if numbers.size not in (0, entries.size):
        raise BadChain(f"there are {entries.size} {kind} ids, but {numbers.size} values.")
    size = (int(entries.max()) + 1 if entries.size else 0) if count is None else count
    if not isinstance(size, (int, np.integer)) or not 0 <= size <= MOST_IDS:
        raise BadSetting(f"the number of {kind}s", size, f"a whole number from 0 to {MOST_IDS}")
    wrong = np.flatnonzero((entries < 0) | (entries >= size))
    if wrong.size:
        raise AttributeOutOfRange(position_of(ends, wrong[0]), int(entries[wrong[0]]), size, kind)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise ValueNotFinite(position_of(ends, wrong[0]), float(numbers[wrong[0]]), f"an {kind}")
    return ends, frozen(entries, np.int32), numbers, size
