"""One block of the lattice: forward over it, back over it.

All production engines are made of these two movements and differ in what they keep in between. A block pass holds the
forward vectors and predictions of its block, in doubles or in wide numbers; its callers need not know which.
"""

from __future__ import annotations

import math

import numpy as np

from chainfold.chain.block import Block
from chainfold.core import backward, backward_general, exponentiate_edges, predict
from chainfold.core.slots import BlockRows, Lattice, Slots, aligned
from chainfold.engines.belief import Belief
from chainfold.engines.forward_pass import Passed, forward_pass, lattice_of
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.model.block_rows import RowFinder
from chainfold.model.layout import Floats


class BlockPass:
    """Forward and back over one block; its arrays are used again for the next block."""

    block: Block  # and its rows: given before the way back
    _block_rows: BlockRows
    passed: Passed  # after `forward` or `restore`

    def __init__(self, problem: Problem, potentials: Potentials) -> None:
        self._problem, self._potentials = problem, potentials
        self._rows = 0  # positions for which there is room
        self._lent: list[Floats] = []  # alpha and predicted; edge and shift, where each position has its own
        self._lattice_room: list[Floats] = []  # the same, a row for each position
        self._finder = RowFinder(problem.model.layout)
        self.low = self.size = 0
        self.entry = Belief(np.zeros(potentials.width))  # the forward vector before the block, as it was given

    @property
    def width(self) -> int:
        return self._potentials.width

    def lattice(self) -> Lattice:
        """The block as kernels take it."""
        block, (alpha, predicted, edge, _, entry, _, _) = self.block, self.passed
        return lattice_of(block.starts, block.labels, alpha, predicted, edge, entry, block.weights)

    def forward(self, low: int, block: Block, entry: Belief | None, masked: bool = True) -> Belief:
        """Forward vectors of the block that begins at position `low`, from the one before it; returns the last.

        masked: labels that may not start or end a sequence are kept from it where one does.
        """
        self._begin(low, block, entry)
        masked = masked and self._problem.masked
        self._score(masked)
        states, predicted, edges, shift = self._arrays()
        self.passed = forward_pass(
            self._potentials,
            low,
            block.starts,
            states,
            edges,
            self.entry,
            lambda: self._score(masked),
            predicted=predicted,
            shift=shift,
            weights=block.weights,
        )
        return self.passed.exit

    def backward(self, gamma: Floats, counts: Slots, keep: bool = False) -> Floats:
        """Add the block's expected counts, given the posterior of its last position.

        Returns the posterior of the position before the block. Unless `keep` is set, the predictions are used up.
        """
        p = self._potentials
        gamma, given = aligned(p.width), gamma
        gamma[:] = given
        if self.block.weights.size:
            gamma *= self.block.weights[-1]
        lattice = self.lattice()
        if keep:
            lattice = lattice._replace(predicted=lattice.predicted.copy())
        rows, block_rows = self._problem.model.layout.rows, self._block_rows
        if lattice.wide or self._problem.has_edges:
            scratch = np.empty((2, p.n_labels, p.width))
            backward_general(self.block, block_rows, lattice, gamma, rows, scratch, counts)
        else:
            pairs = aligned(p.width, p.width)
            backward(block_rows, lattice, p.edge_t, gamma, rows, pairs, counts)
            counts.transition[:] += p.edge[0] * pairs[: p.n_labels].ravel()
        total = gamma.sum()
        if total == 0.0:  # before the chain, or in a sequence of weight zero, where any posterior will do
            gamma = self.passed.entry.doubles()
            total = gamma.sum()
        return gamma / total if total > 0.0 else gamma

    def give(self, low: int, block: Block) -> None:
        """The data of the block, before the way back."""
        self._block_rows = self._problem.find_rows(low, block, self._finder)
        self.block = block

    def release_block(self) -> None:
        """Free the data of the block, to be given again before the way back."""
        del self.block, self._block_rows
        self._finder = RowFinder(self._problem.model.layout)

    def release(self) -> None:
        """Give back the arrays."""
        for array in self._lent:
            self._problem.pool.give(array)
        self._rows, self._lent, self._lattice_room = 0, [], []

    def restore(self, low: int, block: Block, entry: Belief, alpha: Floats | None) -> None:
        """The state after `forward`, from its forward vectors: transition matrices and predictions are recomputed.

        alpha: None where they were wide; the block then goes forward once more.
        """
        if alpha is None:
            self.forward(low, block, entry)
            return
        self._begin(low, block, entry)
        p = self._potentials
        states, predicted, edges, shift = self._arrays()
        states[:] = alpha
        real = entry.real()
        assert real is not None, "the entry of a block of doubles has their range"
        edge, moved = (p.edge, p.shift) if edges is None or shift is None else (edges, shift)
        if edges is not None:
            p.score_edges(block, edges)
            exponentiate_edges(edge, moved)
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
            edges = (self._potentials.scores.size, 1) if self._problem.has_edges else ()
            self._lent = [self._problem.pool.take(self._rows * columns) for columns in (self.width, self.width, *edges)]
            self._lattice_room = [array.reshape(self._rows, -1) for array in self._lent]

    def _arrays(self) -> tuple[Floats, Floats, Floats | None, Floats | None]:
        """For states and predictions; for edges and their shifts, where each position has its own."""
        alpha, predicted, *edges = (array[: self.size] for array in self._lattice_room)
        return alpha, predicted, edges[0] if edges else None, edges[1].ravel() if edges else None

    def _score(self, masked: bool) -> None:
        """State and edge scores of the block."""
        p, problem, block = self._potentials, self._problem, self.block
        states, _, edges, _ = self._arrays()
        if problem.may_overflow(block):
            p.check_scores(self.low, block, self._block_rows)
        p.score_states(self._block_rows, states)
        if masked:
            p.mask(block.starts, problem.ends(self.low, block), states)
        if edges is not None:
            p.score_edges(block, edges)
