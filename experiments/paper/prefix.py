"""The first positions of a chain: as they are read, or copied into arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainfold.chain.block import Block, Source, frozen
from chainfold.chain.chain import Chain
from chainfold.engines.ranges import Ranges

_BLOCK = 65536  # positions that are copied at once


class Prefix:
    """The first positions of a source."""

    def __init__(self, source: Source, positions: int) -> None:
        self._source = source
        self.positions = positions
        self.n_labels, self.n_attributes = source.n_labels, source.n_attributes
        self.n_edge_attributes, self.active, self.labelled = source.n_edge_attributes, source.active, source.labelled

    def block(self, low: int, high: int) -> Block:
        return self._source.block(low, high)


def hold(source: Source, positions: int) -> Chain:
    """The first positions in memory."""
    block = source.block(0, 1)._replace(**frozen_all(fill(source, positions, np.empty)))
    return Chain(*block, n_labels=source.n_labels, n_attributes=source.n_attributes, n_edge_attributes=0)


def frozen_all(arrays: dict[str, Any]) -> dict[str, Any]:
    """Read-only arrays."""
    return {name: frozen(getattr(array, "whole", array), array.dtype) for name, array in arrays.items()}


def fill(source: Source, positions: int, new: Callable[[int, Any], Any]) -> dict[str, Any]:
    """Labels, starts, offsets, ids and values of the first positions; without edge attributes and weights.

    The arrays are made by `new` and filled block by block, so that nothing is held twice.
    """
    ranges, entries, valued = list(Ranges(0, positions, _BLOCK)), 0, False
    for low, high in ranges:
        block = source.block(low, high)
        entries += int(block.offsets[-1] - block.offsets[0])
        valued |= block.values.size > 0
    arrays = {"labels": new(positions, np.int32), "starts": new(positions, np.bool_)}
    arrays |= {"offsets": new(positions + 1, np.int64), "ids": new(entries, np.int32)}
    if valued:
        arrays["values"] = new(entries, np.float64)
    filled = 0
    for low, high in ranges:
        block = source.block(low, high)
        begin, end = int(block.offsets[0]), int(block.offsets[-1])
        arrays["labels"][low:high], arrays["starts"][low:high] = block.labels, block.starts
        arrays["offsets"][low : high + 1] = block.offsets - (begin - filled)
        arrays["ids"][filled : filled + end - begin] = block.ids[begin:end]
        if valued:
            arrays["values"][filled : filled + end - begin] = block.values[begin:end]
        filled += end - begin
    return arrays
