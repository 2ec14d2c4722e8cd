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
    arrays = fill(source, positions, np.empty)
    return Chain(
        *Block(**{name: frozen(array, array.dtype) for name, array in arrays.items()}),
        n_labels=source.n_labels,
        n_attributes=source.n_attributes,
        n_edge_attributes=source.n_edge_attributes,
    )


def fill(source: Source, positions: int, new: Callable[[int, Any], Any]) -> dict[str, Any]:
    """The arrays of the first positions, made by `new` and filled block by block, so that nothing is held twice."""
    prefix, stretches = Prefix(source, positions), list(Ranges(0, positions, _BLOCK))
    entries = {"": 0, "edge_": 0}
    for low, high in stretches:
        block = prefix.block(low, high)
        for kind in entries:
            entries[kind] += _entries(block, kind)
    first = prefix.block(0, 1)
    sizes = {"labels": positions, "starts": positions, "weights": positions}
    for kind, size in entries.items():
        sizes |= {f"{kind}offsets": positions + 1, f"{kind}ids": size, f"{kind}values": size}
    arrays: dict[str, Any] = {
        name: new(size if getattr(first, name).size or name.endswith("ids") else 0, getattr(first, name).dtype)
        for name, size in sizes.items()
    }
    filled = dict.fromkeys(entries, 0)
    for low, high in stretches:
        block = prefix.block(low, high)
        for name in ("labels", "starts", "weights"):
            if arrays[name].size:
                arrays[name][low:high] = getattr(block, name)
        for kind, begin in filled.items():
            offsets, end = getattr(block, f"{kind}offsets"), begin + _entries(block, kind)
            if not arrays[f"{kind}offsets"].size:
                continue
            arrays[f"{kind}offsets"][low : high + 1] = offsets - (offsets[0] - begin)
            for name in (f"{kind}ids", f"{kind}values"):
                if arrays[name].size:
                    arrays[name][begin:end] = getattr(block, name)[offsets[0] : offsets[-1]]
            filled[kind] = end
    return arrays


def _entries(block: Block, kind: str) -> int:
    offsets = getattr(block, f"{kind}offsets")
    return int(offsets[-1] - offsets[0]) if offsets.size else 0
