"""One block of the lattice: forward over it, back over it.

All production engines are made of these two movements and differ in what they keep in between. A block pass holds the
forward vectors and predictions of its block, in doubles where they have the range and in wide numbers where they have
not (`kernels.wide`); its callers need not know which. Inference uses `forward_pass` alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block, frozen
from chainfold.engines.belief import Belief
from chainfold.engines.potentials import Potentials, Transitions
from chainfold.engines.problem import Problem
from chainfold.kernels.backward import backward, backward_general
from chainfold.kernels.faults import OK, check
from chainfold.kernels.few import backward_few, forward_few
from chainfold.kernels.forward import exponentiate_edges, forward, forward_wide, predict
from chainfold.kernels.lattice import EDGE_RANGE, Lattice
from chainfold.kernels.slots import BlockRows, Slots, aligned
from chainfold.model.layout import Floats

_NO_WEIGHTS = frozen(None, np.float64)


class Passed(NamedTuple):
    """A block after the forward pass."""

    alpha: Floats  # [B, width], wide: [B, 2 · width]
    predicted: Floats  # the same
    edge: Floats  # [B or 1, N · width]  E_t, wide: e_t
    shift: Floats  # [B or 1]  what was taken out of e_t; zero where numbers are wide
    entry: Belief  # the forward vector before the block, wide where the others are
    exit: Belief  # the forward vector of its last position
    log_scale: tuple[float, ...]  # a sum: the block's share of log Z, each sequence times its weight

    @property
    def wide(self) -> bool:
        return self.entry.wide


def forward_pass(
    transitions: Transitions,
    low: int,
    starts: NDArray[np.bool_],
    states: Floats,
    edges: Floats | None,
    entry: Belief,
    score_again: Callable[[], None],
    *,
    predicted: Floats | None = None,
    shift: Floats | None = None,
    weights: Floats = _NO_WEIGHTS,
    watch: bool = False,
    wide: bool = False,
) -> Passed:
    """Forward over the block that begins at position `low`: in doubles where they have the range, else in wide numbers.

    states       [B, width]  the state scores, which the forward vectors replace
    edges        [B, N · width]  the edge scores, likewise, or None where all positions share one matrix
    entry        the forward vector before the block
    score_again  computes states and edges once more, in place
    predicted, shift   arrays for the results, [B, width] and [B]
    weights      [B] of the positions' sequences, or empty
    watch        forward vectors of all labels matter, however improbable they are
    wide         use wide numbers
    """
    p = transitions
    real = None if wide or (p.only_wide and edges is None) else entry.real()
    if real is not None:
        edge, moved = p.edge, p.shift
        if edges is not None:
            edge, moved = edges, np.empty(starts.size) if shift is None else shift
        if edges is None or exponentiate_edges(edge, moved) <= EDGE_RANGE:
            ahead = np.empty_like(states) if predicted is None else predicted
            careful = watch or p.watch or edges is not None
            kernel = forward_few if p.few and edges is None else forward
            log_scale, before, status = [], real, OK
            for rows, weight in _rows_by_weight(weights, starts.size):
                own = rows if edges is not None else slice(None)
                arrays = starts[rows], states[rows], ahead[rows], edge[own], moved[own]
                status, scale = kernel(*arrays, before, p.n_labels, careful, p.tiles)
                if status != OK:
                    break
                log_scale += [weight * part for part in scale]
                before = states[rows.stop - 1]
            if status == OK:
                leaving, _ = Belief(states[-1]).normalised()
                return Passed(states, ahead, edge, moved, Belief(real), leaving, tuple(log_scale))
        score_again()
    edge = p.scores if edges is None else edges
    widened = Belief(entry.widened(), wide=True)
    alpha, ahead = np.empty((2, starts.size, 2 * p.width))
    log_scale, before = [], widened.values
    for rows, weight in _rows_by_weight(weights, starts.size):
        own = rows if edges is not None else slice(None)
        status, scale, fault = forward_wide(
            starts[rows], states[rows], edge[own], before, p.n_labels, alpha[rows], ahead[rows]
        )
        check(status, low + rows.start + fault)
        log_scale += [weight * part for part in scale]
        before = alpha[rows.stop - 1]
    leaving, _ = Belief(alpha[-1], wide=True).normalised()
    return Passed(alpha, ahead, edge, np.zeros(1), widened, leaving, tuple(log_scale))


def _rows_by_weight(weights: Floats, size: int) -> list[tuple[slice, float]]:
    """The rows of one weight after another; a new weight comes with a new sequence."""
    if not weights.size:
        return [(slice(0, size), 1.0)]
    borders = [0, *(np.flatnonzero(weights[1:] != weights[:-1]) + 1).tolist(), size]
    return [(slice(low, high), float(weights[low])) for low, high in pairwise(borders)]


def lattice_of(
    starts: NDArray[np.bool_],
    labels: NDArray[np.int32],
    alpha: Floats,
    predicted: Floats,
    edge: Floats,
    entry: Belief,
    weights: Floats = _NO_WEIGHTS,
) -> Lattice:
    """Positions after the forward pass, as kernels take them."""
    n_labels = edge.shape[1] // entry.parts.size
    return Lattice(starts, alpha, predicted, edge, entry.values, labels, weights, entry.wide, n_labels)


class BlockPass:
    """Forward and back over one block; its arrays are used again for the next block."""

    def __init__(self, problem: Problem, potentials: Potentials) -> None:
        self._problem, self._potentials = problem, potentials
        self._rows = 0  # positions for which there is room
        self._lent: list[Floats] = []  # alpha and predicted; edge and shift, where each position has its own
        self._lattice_room: list[Floats] = []  # the same, a row for each position
        self._data: tuple[Block, BlockRows] | None = None
        self._room: BlockRows | None = None  # the arrays that hold the rows
        self._passed: Passed | None = None
        self.low = self.size = 0
        self.entry = Belief(np.zeros(potentials.width))  # the forward vector before the block, as it was given

    @property
    def width(self) -> int:
        return self._potentials.width

    @property
    def block(self) -> Block:
        assert self._data is not None, "given before the way back"
        return self._data[0]

    @property
    def passed(self) -> Passed:
        assert self._passed is not None, "forward comes first"
        return self._passed

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
        self._passed = self._forward(masked)
        return self._passed.exit

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
            kernel = backward_few if p.few else backward
            kernel(block_rows, lattice, p.edge_t, gamma, rows, pairs, counts)
            counts.transition[:] += p.edge[0] * pairs[: p.n_labels].ravel()
        total = gamma.sum()
        if total == 0.0:  # before the chain, or in a sequence of weight zero, where any posterior will do
            gamma = self.passed.entry.doubles()
            total = gamma.sum()
        return gamma / total if total > 0.0 else gamma

    def give(self, low: int, block: Block) -> None:
        """The data of the block, before the way back."""
        block_rows, self._room = self._problem.find_rows(low, block, self._room)
        self._data = block, block_rows

    def release_block(self) -> None:
        """Free the data of the block, to be given again before the way back."""
        self._data = self._room = None

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
        predict(block.starts, states, edge, real, p.n_labels, p.tiles, predicted)
        leaving, _ = Belief(states[-1]).normalised()
        self._passed = Passed(states, predicted, edge, moved, Belief(real), leaving, (math.nan, math.nan))

    @property
    def _block_rows(self) -> BlockRows:
        assert self._data is not None, "given before the way back"
        return self._data[1]

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

    def _forward(self, masked: bool) -> Passed:
        states, predicted, edges, shift = self._arrays()
        return forward_pass(
            self._potentials,
            self.low,
            self.block.starts,
            states,
            edges,
            self.entry,
            lambda: self._score(masked),
            predicted=predicted,
            shift=shift,
            weights=self.block.weights,
        )
