"""One block of the lattice: forward over it, back over it.

All production engines are made of these two movements and differ in what they keep in between. A block pass holds the
forward vectors and predictions of its block, in doubles or in wide numbers; its callers need not know which. Scores
come from a source, and what comes back goes to its sink (`scores`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainfold.chain.block import Block
from chainfold.core import exponentiate_edges, predict
from chainfold.core.slots import Lattice, aligned
from chainfold.engines.belief import Belief
from chainfold.engines.forward_pass import Passed, forward_pass, lattice_of
from chainfold.engines.scores import ScoreSource
from chainfold.model.layout import Floats


class BlockPass:
    """Forward and back over one block; its arrays are used again for the next block."""

    block: Block  # given before the way back
    passed: Passed  # after `forward` or `restore`

    def __init__(self, source: ScoreSource) -> None:
        self._source, self._scores, self._transitions = source, source.scores(), source.transitions
        self._rows = 0  # positions for which there is room
        self._lent: list[Floats] = []  # alpha and predicted; edge and shift, where each position has its own
        self._lattice_room: list[Floats] = []  # the same, a row for each position
        self.low = self.size = 0
        self.entry = Belief(np.zeros(self.width))  # the forward vector before the block, as it was given

    @property
    def width(self) -> int:
        return self._transitions.width

    def lattice(self) -> Lattice:
        """The block as the core takes it."""
        block, (alpha, predicted, edge, _, entry, _, _) = self.block, self.passed
        return lattice_of(block.starts, block.labels, alpha, predicted, edge, entry, block.weights)

    def forward(self, low: int, block: Block, entry: Belief | None, masked: bool = True) -> Belief:
        """Forward vectors of the block that begins at position `low`, from the one before it; returns the last.

        masked: labels that may not start or end a sequence are kept from it where one does.
        """
        self._begin(low, block, entry)
        masked = masked and self._source.masked
        states, predicted, edges, shift = self._arrays()
        self._scores.fill(states, edges, masked)
        self.passed = forward_pass(
            self._transitions,
            low,
            block.starts,
            states,
            edges,
            self.entry,
            lambda: self._scores.fill(states, edges, masked),
            predicted=predicted,
            shift=shift,
            weights=block.weights,
        )
        return self.passed.exit

    def backward(self, gamma: Floats, sink: Any, keep: bool = False) -> Floats:
        """Add to the sink what comes of the block, given the posterior of its last position.

        Returns the posterior of the position before the block. Unless `keep` is set, the predictions are used up.
        """
        gamma, given = aligned(self.width), gamma
        gamma[:] = given
        if self.block.weights.size:
            gamma *= self.block.weights[-1]
        lattice = self.lattice()
        if keep:
            lattice = lattice._replace(predicted=lattice.predicted.copy())
        self._scores.back(lattice, gamma, sink)
        total = gamma.sum()
        if total == 0.0:  # before the chain, or in a sequence of weight zero, where any posterior will do
            gamma = self.passed.entry.doubles()
            total = gamma.sum()
        return gamma / total if total > 0.0 else gamma

    def give(self, low: int, block: Block) -> None:
        """The data of the block, before the way back."""
        self._scores.give(low, block)
        self.block = block

    def release_block(self) -> None:
        """Free the data of the block, to be given again before the way back."""
        del self.block
        self._scores.release()

    def release(self) -> None:
        """Give back the arrays."""
        for array in self._lent:
            self._source.pool.give(array)
        self._rows, self._lent, self._lattice_room = 0, [], []

    def restore(self, low: int, block: Block, entry: Belief, alpha: Floats | None) -> None:
        """The state after `forward`, from its forward vectors: transition matrices and predictions are recomputed.

        alpha: None where they were wide; the block then goes forward once more.
        """
        if alpha is None:
            self.forward(low, block, entry)
            return
        self._begin(low, block, entry)
        p = self._transitions
        states, predicted, edges, shift = self._arrays()
        real = entry.real()
        assert real is not None, "the entry of a block of doubles has their range"
        edge, moved = p.edge, p.shift
        if edges is not None and shift is not None:
            self._scores.fill(states, edges, False)
            exponentiate_edges(edges, shift)
            edge, moved = edges, shift
        states[:] = alpha
        predict(block.starts, states, edge, real, p.n_labels, predicted)
        leaving, _ = Belief(states[-1]).normalised()
        self.passed = Passed(states, predicted, edge, moved, Belief(real), leaving, (math.nan, math.nan))

    def _begin(self, low: int, block: Block, entry: Belief | None) -> None:
        self.low, self.size = low, block.labels.size
        self.give(low, block)
        self.entry = entry or Belief(np.zeros(self.width))
        if self._rows < self.size:
            self.release()
            self._rows = 1 << (self.size - 1).bit_length()  # of few different sizes
            edges = (self._transitions.scores.size, 1) if self._source.own_edges else ()
            columns = (self.width, self.width, *edges)
            self._lent = [self._source.pool.take(self._rows * count) for count in columns]
            self._lattice_room = [array.reshape(self._rows, -1) for array in self._lent]

    def _arrays(self) -> tuple[Floats, Floats, Floats | None, Floats | None]:
        """For states and predictions; for edges and their shifts, where each position has its own."""
        alpha, predicted, *edges = (array[: self.size] for array in self._lattice_room)
        return alpha, predicted, edges[0] if edges else None, edges[1].ravel() if edges else None
