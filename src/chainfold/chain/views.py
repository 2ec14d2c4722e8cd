"""Views of sources: other sources under the same interface, without a copy.

    View             the base: the sizes, names and blocks of another source, of which a subclass changes some
    WeightedView     a source whose sequences have weights
    JoinedSource     sources one after another; positions at the beginning can be freed

`chain.renumbered` has the view under the numbers of another vocabulary.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block, Source, frozen, has_weights, join_blocks, vocabulary_of
from chainfold.chain.chain import Chain
from chainfold.errors import BadChain, ChainfoldError


class View:
    """A source with the sizes, names and blocks of another."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.positions, self.active, self.labelled = source.positions, source.active, source.labelled
        self.n_labels, self.n_attributes = source.n_labels, source.n_attributes
        self.n_edge_attributes = source.n_edge_attributes
        self.vocabulary = vocabulary_of(source)

    def block(self, low: int, high: int) -> Block:
        return self._source.block(low, high)


class WeightedView(View):
    """A source with weights: [T], the same at all positions of a sequence."""

    def __init__(self, source: Source, weights: NDArray[np.float64]) -> None:
        super().__init__(source)
        self._weights = weights

    def block(self, low: int, high: int) -> Block:
        return super().block(low, high)._replace(weights=self._weights[low:high])


class SourcePart(NamedTuple):
    begin: int
    source: Source
    continues: bool  # its first position continues the sequence before it, with or without a start mark


class JoinedSource:
    """Sources one after another, to which more can be appended. Positions before `first` are freed."""

    def __init__(self, n_labels: int, n_attributes: int, n_edge_attributes: int) -> None:
        self.n_labels, self.n_attributes, self.n_edge_attributes = n_labels, n_attributes, n_edge_attributes
        self.active = 0.0  # of the first source
        self.first = self.positions = 0
        self.labelled = True
        self._weighted: bool | None = None
        self._parts: list[SourcePart] = []

    def append(self, source: Source, continues: bool = False) -> None:
        """Append the positions of a source; parts without values or without edge attributes may follow others."""
        if continues and not self.positions:
            raise ChainfoldError("the first piece cannot continue another one.")
        weighted = source.labelled and has_weights(source)
        if self._weighted not in (None, weighted):
            raise ChainfoldError("give all pieces weights and labels, or none of them weights.")
        if not self.positions:
            self._weighted, self.active = weighted, source.active
        self._parts.append(SourcePart(self.positions, source, continues))
        self.positions += source.positions
        self.labelled = bool(self.labelled and source.labelled)

    def forget(self, first: int) -> None:
        """Free all positions before `first`, and the sources."""
        first = max(first, self.first)
        rows = join_blocks([self.block(first, self.positions)])
        kept = Chain(*rows, self.n_labels, self.n_attributes, self.n_edge_attributes)
        self._parts, self.first = [SourcePart(first, kept, False)], first

    def block(self, low: int, high: int) -> Block:
        if not self.first <= low < high <= self.positions:
            raise BadChain(f"positions {low} to {high - 1} are not among {self.first} to {self.positions - 1}.")
        begins = [part.begin for part in self._parts]
        parts = self._parts[bisect_right(begins, low) - 1 : bisect_left(begins, high)]
        blocks = [self._read(part, low, high) for part in parts]
        return blocks[0] if len(blocks) == 1 else join_blocks(blocks)

    def _read(self, part: SourcePart, low: int, high: int) -> Block:
        """The positions low … high-1 that are in a part."""
        begin, source, continues = part
        low, high = max(low - begin, 0), min(high - begin, source.positions)
        block = source.block(low, high)
        if continues and low == 0:
            block = block._replace(starts=frozen(np.append(False, block.starts[1:]), np.bool_))
        if block.weights.size and not self._weighted:
            block = block._replace(weights=frozen(None, np.float64))
        if self.n_edge_attributes and not block.edge_offsets.size:
            block = block._replace(edge_offsets=frozen(np.zeros(high - low + 1), np.int64))
        return block
