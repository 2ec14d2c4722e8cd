"""Sources one after the other, as one; what has been done with can be let go of."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from chainfold.chain.chain import Block, Chain, Source, frozen
from chainfold.chain.stored import joined
from chainfold.errors import BadChain


class Sizes(NamedTuple):
    """What is the same for all parts, however many there will be."""

    n_labels: int
    n_attributes: int
    n_edge_attributes: int
    active: float
    weighted: bool  # every position has a weight; otherwise none has


class Part(NamedTuple):
    begin: int
    source: Source
    continues: bool  # its first position goes on with the sequence before it, whatever its start mark says


class Joined:
    """A source that grows at its end. Positions keep their numbers, and those before `first` are there no more."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.n_labels, self.n_attributes, self.n_edge_attributes, self.active, _ = sizes
        self.first = self.positions = 0
        self.labelled = True
        self._parts: list[Part] = []

    def append(self, source: Source, continues: bool = False) -> None:
        """The positions of the source come next; a part that has no values, or no edge attributes, may join others."""
        self._parts.append(Part(self.positions, source, continues))
        self.positions += source.positions
        self.labelled = bool(self.labelled and source.labelled)

    def keep(self, first: int, rows: Block) -> None:
        """The positions from `first` on are these; nothing else is held any more."""
        n_labels, n_attributes, n_edge_attributes, *_ = self.sizes
        self._parts = [Part(first, Chain(*rows, n_labels, n_attributes, n_edge_attributes), False)]
        self.first, self.positions = first, first + rows.labels.size

    def block(self, low: int, high: int) -> Block:
        if not self.first <= low < high <= self.positions:
            raise BadChain(f"positions {low} to {high - 1} are not among {self.first} to {self.positions - 1}.")
        parts = self._parts[bisect_right(self._parts, low, key=_begin) - 1 : bisect_left(self._parts, high, key=_begin)]
        blocks = [self._read(part, low, high) for part in parts]
        return blocks[0] if len(blocks) == 1 else joined(blocks)

    def _read(self, part: Part, low: int, high: int) -> Block:
        """What there is of these positions in a part."""
        begin, source, continues = part
        low, high = max(low - begin, 0), min(high - begin, source.positions)
        block = source.block(low, high)
        if continues and low == 0:
            block = block._replace(starts=frozen(np.append(False, block.starts[1:]), np.bool_))
        if block.weights.size and not self.sizes.weighted:
            block = block._replace(weights=frozen(None, np.float64))
        if self.n_edge_attributes and not block.edge_offsets.size:
            block = block._replace(edge_offsets=frozen(np.zeros(high - low + 1), np.int64))
        return block


def _begin(part: Part) -> int:
    return part.begin
