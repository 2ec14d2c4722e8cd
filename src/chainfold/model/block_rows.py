"""The rows of weights that a block's attributes need, looked up once per block for the core."""

from __future__ import annotations

import numpy as np

from chainfold.chain.block import Block
from chainfold.core import find_rows
from chainfold.core.slots import BlockRows
from chainfold.model.layout import Layout


class RowFinder:
    """Finds the rows of one block after another, in arrays that are used again for the next one."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._room = _room(0, 0, valued=False)

    def find(self, block: Block) -> BlockRows:
        """The rows of a block, valid until the next one's are asked for."""
        positions, entries = _sizes(block)
        valued = block.values.size > 0
        while True:
            begin, turn, row, value = self._room
            if turn.size >= positions and row.size >= entries and value.size >= entries * valued:
                room = BlockRows(begin[: positions + 1], turn[:positions], row, value)
                entries = find_rows(block.offsets, block.ids, block.values, self._layout.rows, room)
                if entries <= row.size:
                    return room._replace(row=row[:entries], value=value[: entries * valued])
            self._room = _room(*(1 << max(size - 1, 0).bit_length() for size in (positions, entries)), valued=valued)


def find_block_rows(layout: Layout, block: Block) -> BlockRows:
    """The rows of a block's attributes, in new arrays without room to spare."""
    positions, entries = _sizes(block)
    valued = block.values.size > 0
    while True:
        room = _room(positions, entries, valued=valued)
        needed = find_rows(block.offsets, block.ids, block.values, layout.rows, room)
        if needed <= entries:
            return room._replace(row=room.row[:needed], value=room.value[: needed * valued])
        entries = needed


def _sizes(block: Block) -> tuple[int, int]:
    """Positions and attributes."""
    return block.labels.size, int(block.offsets[-1] - block.offsets[0])


def _room(positions: int, entries: int, *, valued: bool) -> BlockRows:
    begin, turn = np.empty(positions + 1, np.int64), np.empty(positions, np.int64)
    return BlockRows(begin, turn, np.empty(entries, np.uint32), np.empty(entries if valued else 0))
