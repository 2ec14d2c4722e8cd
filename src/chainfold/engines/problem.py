"""A model on a chain, with the settings: what every engine is given.

A problem reads blocks, counts what was read, and answers what is known of any position.
"""

from __future__ import annotations

import math
import sys
import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, Source, check_block
from chainfold.core.slots import BlockRows, Slots
from chainfold.engines.pool import ArrayPool
from chainfold.engines.ranges import Ranges
from chainfold.engines.rounding import Extent, Promise, ScoreSizes, error_bounds
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.workspace import Workspace
from chainfold.model.block_rows import RowFinder
from chainfold.model.layout import Floats
from chainfold.model.model import Model


class ReadSoFar(NamedTuple):
    """What was read of a source."""

    positions: int
    size: int  # bytes
    extent: Extent


class Problem:
    """A model on a source, with the settings."""

    def __init__(
        self,
        model: Model,
        source: Source,
        settings: Settings,
        workspace: Workspace | None = None,
        *,
        growing: bool = False,
    ) -> None:
        """growing: the source has no known length."""
        if workspace is not None:
            same = workspace.layout is model.layout and workspace.given is source
            assert same, "a workspace serves one chain under one layout"
        self.model = model
        self.source = source if workspace is None else workspace.source
        self.settings = settings
        self.pool = ArrayPool() if workspace is None else workspace.pool
        self.packed: Floats = model.layout.pack(model.weights, self.pool.take(model.layout.slots))
        self.weights: Slots = model.layout.view(self.packed)
        self.has_edges = source.n_edge_attributes > 0
        self.masked = model.first is not None or model.last is not None
        self.stop = threading.Event()  # set when the run has failed or was interrupted: threads read no further
        self._growing = growing
        self._workspace = workspace
        self._sizes = ScoreSizes(model.layout, model.weights)
        self._extent = Extent() if workspace is None or workspace.extent is None else workspace.extent
        self._overflows = self._sizes.may_overflow(self._extent)  # could scores, as far as was read?
        self._lock = threading.Lock()
        self._positions_read = 0
        self._bytes_read = 0

    @property
    def held(self) -> bool:
        """Whether the chain is small enough to be held in memory, by this process or in parts by several."""
        return self._workspace is not None and self._workspace.fits

    @property
    def positions(self) -> int:
        return self.source.positions

    @property
    def shape(self) -> Shape:
        """Nothing may depend on the length of a source that grows."""
        shape = Shape.of(self.model.layout, self.source)
        return shape._replace(positions=sys.maxsize) if self._growing else shape

    def blocks(self, size: int | None = None) -> Ranges:
        """The chain cut into blocks: (low, high) of each."""
        return Ranges(0, self.positions, size or self.shape.block(self.settings))

    def read(self, low: int, high: int) -> Block:
        block = self.source.block(low, high)
        layout = self.model.layout
        held = self._held_rows(low, high) is not None  # and it has been checked
        if not held:
            check_block(block, low, high, layout.n_labels, layout.n_attributes, self.source.n_edge_attributes)
            extent = Extent.of(block)
        with self._lock:
            self._positions_read += high - low
            self._bytes_read += block.nbytes
            if not held:
                self._extent = self._extent.joined(extent)
                self._overflows = self._sizes.may_overflow(self._extent)
        return block

    def put_back(self, block: Block) -> None:
        """Count positions that were read but not used as not read; they will be read again."""
        with self._lock:
            self._positions_read -= block.labels.size
            self._bytes_read -= block.nbytes

    @property
    def forbids_states(self) -> bool:
        """Whether an attribute has a weight of -inf."""
        return self._sizes.forbids_states

    @property
    def most_score(self) -> float:
        """The largest number that a position can add to the logarithm of a sum of scores times values."""
        sizes, extent = self._sizes, self._extent
        values = max(extent.value, extent.edge_value, 1.0)
        return sizes.states(extent) + sizes.edges(extent) + math.log(self.positions * sizes.n_labels * values)

    def may_overflow(self, block: Block) -> bool:
        """Whether weights, and the values of a block that was read, are so large that a score could overflow."""
        return self._overflows and self._sizes.may_overflow(Extent.of(block))

    def error_bounds(self, log_z: float, promise: Promise) -> tuple[float, float]:
        """Of posteriors and of log Z, see `rounding.error_bounds`."""
        return error_bounds(self._sizes, self._extent, self.positions, log_z, promise, self.settings.tolerance)

    @property
    def passes(self) -> float:
        """How many times the data was read."""
        return self._positions_read / self.positions

    @property
    def bytes_read(self) -> int:
        return self._bytes_read

    def find_rows(self, low: int, block: Block, finder: RowFinder) -> BlockRows:
        """The rows of a block's attributes, found unless they are held."""
        rows = self._held_rows(low, low + block.labels.size)
        return finder.find(block) if rows is None else rows

    def _held_rows(self, low: int, high: int) -> BlockRows | None:
        return None if self._workspace is None else self._workspace.rows(low, high)

    def label_before(self, low: int) -> int:
        """The label observed before position `low`; none where a sequence starts there."""
        if self.source.block(low, low + 1).starts[0]:
            return NO_LABEL
        return int(self.source.block(low - 1, low).labels[0])

    def ends(self, low: int, block: Block) -> NDArray[np.bool_]:
        """[B] where a sequence ends."""
        high = low + block.labels.size
        ended = high == self.positions or bool(self.source.block(high, high + 1).starts[0])
        return np.append(block.starts[1:], ended)

    def masked_label(self, low: int, block: Block) -> int:
        """The first position of the block whose label starts or ends a sequence and may not; -1 if there is none."""
        first, last = self.model.first, self.model.last
        wrong = np.zeros(block.labels.size, np.bool_)
        if first is not None:
            wrong |= block.starts & ~first[block.labels]
        if last is not None:
            wrong |= self.ends(low, block) & ~last[block.labels]
        return int(np.argmax(wrong)) if wrong.any() else -1

    def release(self) -> None:
        """Give back the array that holds the weights."""
        self.pool.give(self.packed)

    @property
    def read_so_far(self) -> ReadSoFar:
        return ReadSoFar(self._positions_read, self._bytes_read, self._extent)

    def add_read(self, read: ReadSoFar) -> None:
        """Count what was read elsewhere, too."""
        self._positions_read += read.positions
        self._bytes_read += read.size
        self._extent = self._extent.joined(read.extent)
