"""Scores that are sums of the weights of attributes; what comes back are expected counts."""

from __future__ import annotations

import numpy as np

from chainfold.chain.block import Block
from chainfold.core import backward, backward_general
from chainfold.core.faults import check_memory
from chainfold.core.slots import BlockRows, Lattice, Slots, aligned
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.scores import ScoreView
from chainfold.model.block_rows import RowFinder
from chainfold.model.layout import Floats


class WeightSource:
    """Scores that are sums of the weights of a position's attributes."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.transitions = self.potentials = Potentials(problem.model, problem.weights, problem.has_edges)
        self.own_edges, self.masked, self.pool = problem.has_edges, problem.masked, problem.pool
        self.tolerance = problem.settings.tolerance

    @property
    def positions(self) -> int:
        return self.problem.positions

    def read(self, low: int, high: int) -> Block:
        return self.problem.read(low, high)

    def scores(self) -> ScoreView:
        return _WeightScores(self.problem, self.potentials)


class _WeightScores:
    """The scores of a block's attributes; what comes back are expected counts."""

    _block: Block
    _rows: BlockRows

    def __init__(self, problem: Problem, potentials: Potentials) -> None:
        self._problem, self._potentials = problem, potentials
        self._finder = RowFinder(problem.model.layout)
        self._low = 0

    def give(self, low: int, block: Block) -> None:
        self._rows = self._problem.find_rows(low, block, self._finder)
        self._low, self._block = low, block

    def release(self) -> None:
        del self._block, self._rows
        self._finder = RowFinder(self._problem.model.layout)

    def fill(self, states: Floats, edges: Floats | None, masked: bool) -> None:
        p, problem, block = self._potentials, self._problem, self._block
        if problem.may_overflow(block):
            p.check_scores(self._low, block, self._rows)
        p.score_states(self._rows, states)
        if masked:
            p.mask(block.starts, problem.ends(self._low, block), states)
        if edges is not None:
            p.score_edges(block, edges)

    def back(self, lattice: Lattice, gamma: Floats, sink: Slots) -> None:
        p, rows = self._potentials, self._potentials.layout.rows
        if lattice.wide or self._problem.has_edges:
            scratch = np.empty((2, p.n_labels, p.width))
            backward_general(self._block, self._rows, lattice, gamma, rows, scratch, sink)
        else:
            pairs = aligned(p.width, p.width)
            check_memory(backward(self._rows, lattice, p.edge_t, gamma, rows, pairs, sink))
            sink.transition[:] += p.edge[0] * pairs[: p.n_labels].ravel()
