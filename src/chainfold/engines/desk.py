"""What is kept from one evaluation to the next: arrays to work in, and a chain in memory with its rows found.

Training evaluates the same chain a hundred times. Memory that is new costs a fault for each page of it, as much as the
work that is done there; and the rows of the attributes are where they were.
"""

from __future__ import annotations

import threading
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from chainfold.data.chain import Chain, Source, check_block, gather
from chainfold.kernels.scores import Found
from chainfold.kernels.simd import aligned
from chainfold.model import Layout

Floats = NDArray[np.float64]

_HELD = 512 << 20  # bytes: a chain that takes more is read again from where it is
_ENTRY_BYTES, _POSITION_BYTES = 12, 40  # of a chain in memory with its rows found


class Room:
    """Arrays that are lent and taken back."""

    def __init__(self) -> None:
        self._free: dict[int, list[Floats]] = defaultdict(list)
        self._lock = threading.Lock()

    def take(self, size: int) -> Floats:
        """An array that begins a line of the cache; what is in it is not known."""
        with self._lock:
            free = self._free[size]
            array = free.pop() if free else None
        return aligned(size) if array is None else array

    def zeros(self, size: int) -> Floats:
        array = self.take(size)
        array[:] = 0.0
        return array

    def give(self, array: Floats) -> None:
        """Take back an array that was lent."""
        with self._lock:
            self._free[array.size].append(array)


class Desk:
    """The room for evaluations of one chain, and the chain itself if it is small enough to be held."""

    def __init__(self, layout: Layout, source: Source, memory: int | None = None) -> None:
        self.room = Room()
        self.source = source
        self.found: Found | None = None
        size = source.positions * (_ENTRY_BYTES * source.active + _POSITION_BYTES)
        if size <= min(_HELD, _HELD if memory is None else memory // 2):
            self.source = source if isinstance(source, Chain) else gather(source)
            block = self.source.block(0, source.positions)
            sizes = layout.n_labels, layout.n_attributes, source.n_edge_attributes
            check_block(block, 0, source.positions, *sizes)
            self.found = layout.find_rows(block)
