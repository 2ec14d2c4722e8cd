"""Blocks spilled to disk, column by column, until their final numbers are known.

The files have no name and are removed with the process. They are read back once, in order,
with ids renumbered and those of dropped attributes left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, frozen
from chainfold.chain.entries import without_gaps
from chainfold.chain.vocabulary import Vocabulary
from chainfold.system.spill import SpillFile

_TYPES = (np.int32, np.bool_, np.int64, np.int32, np.float64, np.int64, np.int32, np.float64, np.float64)
_FILL = 1 << 16  # numbers written at once where values are filled in


def frozen_block(*arrays: NDArray[Any] | None) -> Block:
    """A block of the arrays that are given, read-only and of its types; the others are empty."""
    return Block(*map(frozen, (*arrays, *[None] * (len(_TYPES) - len(arrays))), _TYPES))


class EntrySpool:
    """The attributes of one kind: how many each position has, their ids, their values once any is not one."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._counts, self.ids = SpillFile(np.int32, folder), SpillFile(np.int32, folder)
        self._values: SpillFile | None = None

    def append(self, offsets: NDArray[np.int64], ids: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        if values.size and self._values is None:
            self._values = SpillFile(np.float64, self._folder)
            for low in range(0, self.ids.size, _FILL):
                self._values.append(np.ones(min(_FILL, self.ids.size - low)))
        if self._values is not None:
            self._values.append(values if values.size else np.ones(ids.size))
        self._counts.append(np.diff(offsets))
        self.ids.append(ids)

    @property
    def valued(self) -> bool:
        return self._values is not None

    @property
    def columns(self) -> list[SpillFile]:
        return [self._counts, self.ids, *([] if self._values is None else [self._values])]

    def read(
        self, positions: int, renumbering: NDArray[np.int32] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """The entries of the next positions."""
        offsets = np.concatenate([[0], np.cumsum(self._counts.read(positions), dtype=np.int64)])
        ids = self.ids.read(int(offsets[-1]))
        values = np.empty(0) if self._values is None else self._values.read(ids.size)
        if renumbering is not None:
            ids = renumbering[ids]
            offsets, ids, values = without_gaps(offsets, ids, values)
        return offsets, ids, values


class Spool:
    """Labels, start marks, weights and entries of a chain that is being encoded."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.labels, self.starts = SpillFile(np.int32, folder), SpillFile(np.bool_, folder)
        self.weights: SpillFile | None = None
        self.state, self.edge = EntrySpool(folder), EntrySpool(folder)
        self.sequences, self.unlabelled = 0, 0

    @property
    def columns(self) -> list[SpillFile]:
        weights = [] if self.weights is None else [self.weights]
        return [self.labels, self.starts, *weights, *self.state.columns, *self.edge.columns]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for column in self.columns:
            column.close()

    @property
    def positions(self) -> int:
        return self.labels.size

    def append(self, block: Block) -> None:
        """Append positions; all of them have weights, or none."""
        self.labels.append(block.labels)
        self.starts.append(block.starts)
        if block.weights.size:
            self.weights = self.weights or SpillFile(np.float64, self._folder)
            self.weights.append(block.weights)
        self.sequences += int(np.count_nonzero(block.starts))
        self.unlabelled += int(np.count_nonzero(block.labels == NO_LABEL))
        self.state.append(block.offsets, block.ids, block.values)
        edge_offsets = block.edge_offsets if block.edge_offsets.size else np.zeros(block.labels.size + 1, np.int64)
        self.edge.append(edge_offsets, block.edge_ids, block.edge_values)


@dataclass(frozen=True)
class Numbering:
    """The final ids of one kind of attributes."""

    size: int  # how many there are
    entries: int  # how many entries they have
    ids: NDArray[np.int32] | None  # the final id of each earlier one, -1 for one that is dropped; None: as it was


class SpooledChain:
    """A source with its final numbers, to be read once, in order."""

    def __init__(
        self,
        spool: Spool,
        vocabulary: Vocabulary,
        state: Numbering,
        edge: Numbering,
        given: Callable[[int], None],
    ) -> None:
        self._spool, self._state, self._edge, self._given = spool, state, edge, given
        self.vocabulary = vocabulary
        self.positions, self.sequences = spool.positions, spool.sequences
        self.n_labels = len(vocabulary.labels)
        self.n_attributes, self.n_edge_attributes = state.size, edge.size
        self.active = state.entries / spool.positions
        self.labelled = spool.unlabelled == 0
        self.valued, self.edge_valued = spool.state.valued, spool.edge.valued
        self.weighted = spool.weights is not None
        for column in spool.columns:
            column.seek(0)
        self._read = 0

    def block(self, low: int, high: int) -> Block:
        assert low == self._read, "positions are read once, in order"
        self._read = high
        count = high - low
        self._given(count)
        edge = self._spool.edge.read(count, self._edge.ids) if self._edge.size else (None, None, None)
        weights = self._spool.weights
        return frozen_block(
            self._spool.labels.read(count),
            self._spool.starts.read(count),
            *self._spool.state.read(count, self._state.ids),
            *edge,
            None if weights is None else weights.read(count),
        )
