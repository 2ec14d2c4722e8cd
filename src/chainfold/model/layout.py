"""The layout of the weights: which there are, and in which order.

The weights of a model are one flat vector: for each attribute its row of (label, weight), labels ascending; then the
transitions V[i, j]; then, for each edge attribute b, U[b, i, j]. A layout says which rows there are: all labels for
each attribute, or the pairs that occur in some data. Gradients and counts have the same layout.

Kernels work on *slots*, the same numbers padded for vector loads (see `core.slots`); the layout carries weights
into slots and counts out of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import MOST_LABELS, NO_LABEL, Source, has_weights, vocabulary_of
from chainfold.core.slots import WIDTH, FeatureIndex, RowLayout, Slots, aligned, padded
from chainfold.errors import BadSetting, ChainfoldError

Floats = NDArray[np.float64]

_AT_ONCE = 65536  # positions that are looked at
_MOST_MARKS = 1 << 28  # bytes of a table with a mark for each possible pair
_LEAST_FILL, _LEAST_LABELS = 1 / 4, 8 / 3  # of the padded rows, on average: below it, short rows are quicker
_MOST_ENTRIES = 2**32 - 1  # of short rows, which blocks name in 32 bits
_LEAST_SHARE = 3 / 4  # of the labels, where there are few


@dataclass(frozen=True, eq=False)
class Layout:
    """Which weights exist, in which order; `Layout.full` and `Layout.observed` make one.

    >>> layout = Layout.full(n_labels=2, n_attributes=3)
    >>> layout.size, layout.name(0), layout.name(7)
    (10, 'attribute 0, label 0', 'transition 0 to 1')
    """

    n_labels: int
    n_attributes: int
    n_edge_attributes: int
    row_offsets: NDArray[np.int64] | None  # [V + 1]; None: every attribute has all labels
    row_labels: NDArray[np.int32] | None  # [state weights]

    def __post_init__(self) -> None:
        if self.n_labels > MOST_LABELS:
            raise BadSetting("n_labels", self.n_labels, f"at most {MOST_LABELS}")
        labels = self.row_labels
        if labels is not None and labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < self.n_labels:
            outside = int(labels.min()) if labels.min() < 0 else int(labels.max())
            raise BadSetting("a label among row_labels", outside, f"from 0 to {self.n_labels - 1}")

    @classmethod
    def full(cls, n_labels: int, n_attributes: int, n_edge_attributes: int = 0) -> Layout:
        """A weight for every attribute with every label."""
        for name, value, least in (
            ("n_labels", n_labels, 1),
            ("n_attributes", n_attributes, 0),
            ("n_edge_attributes", n_edge_attributes, 0),
        ):
            if value < least:
                raise BadSetting(name, value, f"at least {least}")
        return cls(n_labels, n_attributes, n_edge_attributes, None, None)

    @classmethod
    def observed(cls, source: Source) -> Layout:
        """A weight for each (attribute, label) pair that occurs in the source; transitions and edges are all kept.

        Sequences of weight 0 do not count. The vocabulary of the source knows the pairs; without one, or where
        sequences have weights, the source is read.
        """
        vocabulary = vocabulary_of(source)
        if vocabulary is None or has_weights(source):
            offsets, labels = _rows_of(source)
        else:
            offsets, labels = vocabulary.pairs()
        if not labels.size and not source.labelled:
            raise ChainfoldError("the chain has no labels from which to learn its pairs; take Layout.full instead.")
        return cls(source.n_labels, source.n_attributes, source.n_edge_attributes, offsets, labels)

    @cached_property
    def n_state(self) -> int:
        """Weights of state attributes."""
        if self.row_offsets is None:
            return self.n_attributes * self.n_labels
        return int(self.row_offsets[-1])

    @cached_property
    def size(self) -> int:
        """M, the number of weights."""
        return self.n_state + (1 + self.n_edge_attributes) * self.n_labels**2

    @cached_property
    def width(self) -> int:
        """Labels, padded to the vector width."""
        return padded(self.n_labels)

    @cached_property
    def dense(self) -> int:
        """The number of leading attributes with padded rows: as many as keep those rows reasonably full."""
        if self.row_offsets is None:
            return self.n_attributes
        least = max(_LEAST_FILL * self.width, min(_LEAST_LABELS, _LEAST_SHARE * self.n_labels))
        filled = self.row_offsets[1:] >= least * np.arange(1, self.n_attributes + 1)
        return int(np.flatnonzero(filled)[-1]) + 1 if filled.any() else 0

    @cached_property
    def rows(self) -> RowLayout:
        """The shape of the state weights, for kernels."""
        if self.row_offsets is None or self.row_labels is None:
            return RowLayout(self.dense, np.zeros(1, np.int64), np.empty(0, np.uint16), self.width)
        first = self.row_offsets[self.dense]
        labels = self.row_labels[first:].astype(np.uint16)
        if labels.size > _MOST_ENTRIES:
            raise BadSetting("the number of weights of rare attributes", labels.size, f"at most {_MOST_ENTRIES}")
        return RowLayout(self.dense, self.row_offsets[self.dense :] - first, labels, self.width)

    @cached_property
    def features(self) -> FeatureIndex:
        """The weights in their own order, for the algorithms of the paper."""
        begin, label = self.row_offsets, self.row_labels
        if begin is None or label is None:
            begin = np.arange(self.n_attributes + 1, dtype=np.int64) * self.n_labels
            label = np.tile(np.arange(self.n_labels, dtype=np.int32), self.n_attributes)
        return FeatureIndex(begin, label, self.n_labels)

    @cached_property
    def slots(self) -> int:
        """The number of numbers in the padded form."""
        return self._pairs_begin + (1 + self.n_edge_attributes) * self.n_labels * self.width

    def view(self, flat: Floats) -> Slots:
        """The parts of a flat array of slots."""
        dense, begin, pairs = self.dense * self.width, self._pairs_begin, self.n_labels * self.width
        sparse = flat[dense : dense + self.rows.label.size]
        return Slots(flat[:dense], sparse, flat[begin : begin + pairs], flat[begin + pairs :])

    @cached_property
    def blank(self) -> Floats:
        """[width]: the scores of a position without attributes, 0 for a label and -inf for padding."""
        blank = aligned(self.width)
        blank[self.n_labels :] = -np.inf
        return blank

    def pack(self, weights: Floats, flat: Floats | None = None, padding: float = -np.inf) -> Floats:
        """Weights into slots; padding is 0 for attributes and -inf for transitions, so that it cannot be entered."""
        if flat is None:
            flat = aligned(self.slots)
        flat[:] = 0.0
        slots = self.view(flat)
        slots.transition[:] = padding
        dense, sparse, transition, edge = np.split(weights, self._boundaries)
        if self.row_offsets is None:
            self._full_rows(slots.dense)[:] = dense.reshape(-1, self.n_labels)
        else:
            slots.dense[self._dense_slots] = dense
        slots.sparse[:] = sparse
        self._pairs(slots.transition)[:] = transition.reshape(-1, self.n_labels, self.n_labels)
        self._pairs(slots.edge)[:] = edge.reshape(-1, self.n_labels, self.n_labels)
        return flat

    def unpack(self, flat: Floats) -> Floats:
        """Slots into the order of the weights."""
        slots = self.view(flat)
        full = self.row_offsets is None
        dense = self._full_rows(slots.dense).ravel() if full else slots.dense[self._dense_slots]
        transition, edge = self._pairs(slots.transition).ravel(), self._pairs(slots.edge).ravel()
        return np.concatenate([dense, slots.sparse, transition, edge])

    def name(self, index: int) -> str:
        """The attribute and label, or the transition, of weight `index`, in words."""
        if index < self.n_state:
            begin = self.features.begin
            attribute = int(np.searchsorted(begin, index, side="right")) - 1
            return f"attribute {attribute}, label {self.features.label[index]}"
        edge, pair = divmod(index - self.n_state, self.n_labels**2)
        move = f"{pair // self.n_labels} to {pair % self.n_labels}"
        return f"transition {move}" if edge == 0 else f"edge attribute {edge - 1}, transition {move}"

    def index(self, attribute: int, label: int) -> int | None:
        """The number of the weight of an attribute with a label; None if there is none."""
        if self.row_offsets is None or self.row_labels is None:
            return attribute * self.n_labels + label
        low, high = int(self.row_offsets[attribute]), int(self.row_offsets[attribute + 1])
        at = low + int(np.searchsorted(self.row_labels[low:high], label))
        return at if at < high and self.row_labels[at] == label else None

    @cached_property
    def _boundaries(self) -> list[int]:
        """The places among the weights where the sparse rows, the transitions and the edge attributes begin."""
        dense = self.n_state if self.row_offsets is None else int(self.row_offsets[self.dense])
        return [dense, self.n_state, self.n_state + self.n_labels**2]

    @cached_property
    def _pairs_begin(self) -> int:
        """The slot where the transitions begin, which is the beginning of a vector."""
        state = self.dense * self.width + self.rows.label.size
        return state + -state % WIDTH

    @cached_property
    def _dense_slots(self) -> NDArray[np.int64]:
        """The slot of each weight of a padded row, if not every row is full."""
        begin, label = self.features.begin[: self.dense + 1], self.features.label[: self._boundaries[0]]
        return np.repeat(np.arange(self.dense) * self.width, np.diff(begin)) + label

    def _full_rows(self, slots: Floats) -> Floats:
        """State rows without their padding: [V, N]."""
        return slots.reshape(-1, self.width)[:, : self.n_labels]

    def _pairs(self, slots: Floats) -> Floats:
        """Label pairs without their padding: [·, N, N]."""
        return slots.reshape(-1, self.n_labels, self.width)[:, :, : self.n_labels]


def _rows_of(source: Source) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The labels of each attribute, from the data: labels[offsets[a] : offsets[a + 1]] are those of attribute a."""
    pairs = _pairs_of(source)
    rows = np.bincount(pairs // max(source.n_labels, 1), minlength=source.n_attributes)
    offsets = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    return offsets, (pairs % max(source.n_labels, 1)).astype(np.int32)


def _pairs_of(source: Source) -> NDArray[np.int64]:
    """attribute · N + label of each pair that occurs, ascending."""
    size = source.n_attributes * source.n_labels
    table = np.zeros(size if size <= _MOST_MARKS else 0, bool)
    pairs, recent, waiting = np.empty(0, np.int64), [np.empty(0, np.int64)], 0
    for low in range(0, source.positions, _AT_ONCE):
        part = source.block(low, min(low + _AT_ONCE, source.positions))
        ids = part.ids[part.offsets[0] : part.offsets[-1]].astype(np.int64)
        labels = np.repeat(part.labels, np.diff(part.offsets))
        known = labels != NO_LABEL
        if part.weights.size:
            known &= np.repeat(part.weights > 0.0, np.diff(part.offsets))
        found = ids[known] * source.n_labels + labels[known]
        if table.size:
            table[found] = True
        else:  # too many to mark: sort what has come, whenever it has doubled
            recent.append(np.unique(found))
            waiting += recent[-1].size
            if waiting > max(pairs.size, 1 << 22):
                pairs, recent, waiting = np.unique(np.concatenate([pairs, *recent])), [], 0
    return np.flatnonzero(table) if table.size else np.unique(np.concatenate([pairs, *recent]))
