"""Whole sequences, forward and back in one go: all that is between fits into the cache."""

from __future__ import annotations

import numpy as np

from chainfold.chain.block import Block
from chainfold.core import whole_sequences
from chainfold.core.slots import Slots, aligned, is_few
from chainfold.engines.belief import Belief
from chainfold.engines.forward_pass import lattice_of
from chainfold.engines.problem import Problem
from chainfold.engines.weight_scores import WeightSource
from chainfold.model.block_rows import RowFinder
from chainfold.model.layout import Floats

_BYTES, _LEAST_ROWS = 256 << 10, 512  # for whole sequences: a share of the cache, but this many positions at least
_MOST, _MOST_PLACES = 16384, 16 << 20  # positions that are looked through for whole sequences, bytes of their rows
_MOST_HELD = 65536  # where the chain is in memory and a position of few labels takes little time


class ShortSequences:
    """Sequences that begin and end within a block."""

    def __init__(self, source: WeightSource) -> None:
        self._problem, self._potentials = problem, potentials = source.problem, source.potentials
        width = potentials.width
        self.most = self.most_of(problem)
        self.rows = max(_BYTES // (16 * width), _LEAST_ROWS)
        self._entry = Belief(aligned(width))
        self._lent: list[Floats] = []
        self._finder = RowFinder(problem.model.layout)

    @staticmethod
    def most_of(problem: Problem) -> int:
        """Positions that are looked through at once."""
        most = _MOST_HELD if problem.held and is_few(problem.shape.n_labels) else _MOST
        return max(min(most, int(_MOST_PLACES // (8 * problem.source.active + 16))), 2 * _LEAST_ROWS)

    @staticmethod
    def suit(source: WeightSource) -> bool:
        """Not where there are edge attributes or masks, a size of block, or less memory than it takes."""
        problem = source.problem
        plain = not (problem.has_edges or problem.masked or source.transitions.only_wide)
        memory, shape = problem.settings.memory, problem.shape
        fits = memory is None or ShortSequences.most_of(problem) * shape.pending_bytes + _BYTES <= memory / 4
        return plain and fits and problem.settings.block is None

    def reach(self, low: int, high: int, closed: bool) -> int:
        """The positions from `low` on, before `high`, of sequences that begin and end there and are short enough.

        closed   a sequence ends with position high-1, even if no start mark says so
        """
        marks = self._problem.source.block(low, high).starts.nonzero()[0]
        if closed:
            marks = np.append(marks, high - low)
        if not marks.size or marks[0] > 0:
            return 0
        long = (marks[1:] - marks[:-1] > self.rows).nonzero()[0]
        return int(marks[long[0] if long.size else -1])

    def forward_and_back(self, low: int, block: Block, counts: Slots) -> tuple[int, tuple[float, float]]:
        """Add the expected counts of the sequences of a block; returns (positions done, their scale)."""
        p, layout = self._potentials, self._problem.model.layout
        alpha, predicted = self._vectors()
        lattice = lattice_of(block.starts, block.labels, alpha, predicted, p.edge, self._entry, block.weights)
        pairs = aligned(p.width, p.width)
        block_rows = self._problem.find_rows(low, block, self._finder)
        done, log_scale = whole_sequences(
            block_rows,
            lattice,
            layout.rows,
            self._problem.weights,
            layout.blank,
            p.edge_t,
            p.shift,
            p.watch,
            aligned(p.width),
            pairs,
            counts,
        )
        counts.transition[:] += p.edge[0] * pairs[: p.n_labels].ravel()
        return done, log_scale

    def release(self) -> None:
        """Give back the arrays."""
        for array in self._lent:
            self._problem.pool.give(array)
        self._lent = []

    def _vectors(self) -> list[Floats]:
        """Arrays for the forward vectors and predictions of a few sequences."""
        if not self._lent:
            self._lent = [self._problem.pool.take(self.rows * self._potentials.width) for _ in range(2)]
        return [array.reshape(self.rows, -1) for array in self._lent]
