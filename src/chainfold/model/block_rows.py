"""The rows of weights that a block's attributes need, looked up once per block for the kernels."""

from __future__ import annotations

import numpy as np

from chainfold.chain.block import Block
from chainfold.core import find_rows
from chainfold.core.slots import BlockRows
from chainfold.model.layout import Layout


def find_block_rows(layout: Layout, block: Block, room: BlockRows | None = None) -> BlockRows:
    """The rows of a block's attributes, in the arrays of `room_for` or, unless given, in new ones."""
    positions, entries, values = _sizes(block)
    if room is None:
        rows = _new(positions, entries, values)
    else:
        rows = BlockRows(room.begin[: positions + 1], room.turn[:positions], room.row[:entries], room.value[:values])
    find_rows(block.offsets, block.ids, block.values, layout.rows, rows)
    return rows


def room_for(block: Block, room: BlockRows | None) -> BlockRows:
    """Arrays that are large enough for the rows of a block: those given, or new ones with some to spare."""
    sizes = _sizes(block)
    if room is not None and all(array.size >= size for array, size in zip(room[1:], sizes, strict=True)):
        return room
    return _new(*(1 << max(size - 1, 0).bit_length() if size else 0 for size in sizes))


def _sizes(block: Block) -> tuple[int, int, int]:
    """Positions, entries and values."""
    entries = int(block.offsets[-1] - block.offsets[0])
    return block.labels.size, entries, entries if block.values.size else 0


def _new(positions: int, entries: int, values: int) -> BlockRows:
    begin, turn, row = (np.empty(size, np.int64) for size in (positions + 1, positions, entries))
    return BlockRows(begin, turn, row, np.empty(values))
