"""What is kept from one evaluation to the next: arrays to work in, and a chain in memory with its rows looked up.

Training evaluates the same chain a hundred times. New memory costs a page fault for each page, as much as the work that
is done there; and the rows of the attributes do not change.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from chainfold.chain.block import Block, Source, check_block, frozen
from chainfold.chain.chain import Chain, gather
from chainfold.chain.views import View
from chainfold.core.slots import BlockRows
from chainfold.engines.pool import ArrayPool
from chainfold.engines.rounding import Extent
from chainfold.model.block_rows import find_block_rows
from chainfold.model.layout import Layout

MOST_HELD = 512 << 20
"""Bytes of a chain in memory: one that takes more is read again from where it is."""

_ENTRY_BYTES, _VALUE_BYTES, _POSITION_BYTES = 12, 16, 40  # of a chain in memory with its rows looked up


class HeldPositions(View):
    """A source of which some positions are held in memory."""

    def __init__(self, source: Source, low: int, high: int) -> None:
        super().__init__(source)
        self.low, self.high = low, high
        self._held = source.block(low, high)

    def block(self, low: int, high: int) -> Block:
        if self.low <= low and high <= self.high:
            return self._held.part(low - self.low, high - self.low)
        return super().block(low, high)


class Workspace:
    """Arrays for evaluations of one chain under one layout, and its positions themselves if few enough to be held."""

    def __init__(
        self,
        layout: Layout,
        source: Source,
        hold: bool = True,
        ids: bool = True,
        low: int = 0,
        high: int | None = None,
        pool: ArrayPool | None = None,
    ) -> None:
        """Positions low … high-1 of the chain, where only those are evaluated.

        hold   may they be held in memory?
        ids    are those of attributes needed where their rows are known?
        pool   arrays that are shared with other workspaces
        """
        self.layout, self.given = layout, source
        self.pool = pool or ArrayPool()
        self.source = source
        self.low, self.high = low, source.positions if high is None else high
        self.block_rows: BlockRows | None = None
        self.extent: Extent | None = None
        self.fits = hold and held_bytes(source) <= MOST_HELD  # the whole chain, wherever its positions are held
        if hold and held_bytes(source, self.high - low) <= MOST_HELD:
            self.source = self._hold(source)
            block = self.source.block(low, self.high)
            check_block(block, low, self.high, layout.n_labels, layout.n_attributes, 0)
            self.block_rows, self.extent = find_block_rows(layout, block), Extent.of(block)
            if not ids and isinstance(self.source, Chain):
                self.source = _RowsKnown(self.source)

    def _hold(self, source: Source) -> Source:
        if self.high - self.low < source.positions:
            return HeldPositions(source, self.low, self.high)
        return source if isinstance(source, Chain) else gather(source)

    def rows(self, low: int, high: int) -> BlockRows | None:
        """The rows of positions low … high-1, if they were looked up."""
        if self.block_rows is None or low < self.low or high > self.high:
            return None
        begin, turn, row, value = self.block_rows
        low, high = low - self.low, high - self.low
        return BlockRows(begin[low : high + 1], turn[low:high], row, value)


class _RowsKnown(View):
    """A chain in memory whose rows are known: it has no ids of attributes, and no names for them."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain)
        self._source, self.vocabulary = replace(chain, ids=frozen(None, np.int32), vocabulary=None), None


def held_bytes(source: Source, positions: int | None = None) -> float:
    """Bytes of all or some positions in memory with their rows looked up; infinite where they have edge attributes."""
    if source.n_edge_attributes:
        return math.inf
    valued = source.block(0, 1).values.size > 0
    entry = _ENTRY_BYTES + (_VALUE_BYTES if valued else 0)
    return (positions or source.positions) * (entry * source.active + _POSITION_BYTES)
