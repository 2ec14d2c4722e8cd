"""Transition scores and the weights of a model as kernels take them: scores of blocks, and exp of the transitions."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.engines.problem import Problem
from chainfold.engines.rounding import check_scores
from chainfold.kernels.forward import exponentiate_edges
from chainfold.kernels.lattice import EDGE_RANGE
from chainfold.kernels.scores import edge_scores, state_scores
from chainfold.kernels.slots import BlockRows, Slots, Tiles, aligned
from chainfold.model.layout import Floats
from chainfold.model.model import Model


class Transitions:
    """The scores of transitions as kernels take them.

    scores      [1, N · width]  V
    edge        [1, N · width]  E = exp(V - shift)
    edge_t      [N, width]  E transposed
    only_wide   transition scores span more than a double allows
    watch       forward vectors may leave the range of a double
    """

    def __init__(self, scores: Floats, n_labels: int, tiles: Tiles, restricted: bool, has_edges: bool) -> None:
        """restricted: labels may be forbidden by state scores; has_edges: each position has a matrix of its own."""
        self.scores, self.n_labels, self.tiles = scores, n_labels, tiles
        self.width: int = scores.shape[1] // n_labels
        self.edge = aligned(*scores.shape)
        self.edge[:] = scores
        self.shift = np.zeros(1)
        widest = exponentiate_edges(self.edge, self.shift)
        square = slice(None), slice(n_labels)
        self.edge_t = aligned(n_labels, self.width)
        self.edge_t[square] = self.edge.reshape(n_labels, self.width)[square].T
        all_allowed = bool((scores.reshape(n_labels, self.width)[square] > -np.inf).all())
        self.only_wide = bool(widest > EDGE_RANGE) and not has_edges
        self.watch = has_edges or restricted or not all_allowed

    @cached_property
    def log_edge(self) -> Floats:
        """[N · width]  log E, 0 where E is zero."""
        with np.errstate(over="ignore"):  # where the difference leaves the range, the edge is zero
            return np.where(self.edge > 0.0, self.scores - self.shift, 0.0).ravel()


class Potentials(Transitions):
    """The weights of a model as kernels take them: its transitions, and the scores of blocks."""

    def __init__(self, model: Model, weights: Slots, has_edges: bool = False) -> None:
        """weights: those of the model, packed; has_edges: every position has a transition matrix of its own."""
        layout = model.layout
        self.layout, self.weights = layout, weights
        masked = model.first is not None or model.last is not None
        super().__init__(weights.transition.reshape(1, -1), layout.n_labels, layout.rows.tiles, masked, has_edges)
        self.never_first, self.never_last = (
            np.flatnonzero([] if mask is None else np.logical_not(mask)) for mask in (model.first, model.last)
        )

    @classmethod
    def of(cls, problem: Problem) -> Potentials:
        return cls(problem.model, problem.weights, problem.has_edges)

    def score_states(self, block_rows: BlockRows, out: Floats) -> None:
        """out: [B, width]  the state scores of a block."""
        state_scores(block_rows, self.layout.rows, self.weights, self.layout.blank, out)

    def score_edges(self, block: Block, out: Floats) -> None:
        """out: [B, N · width]  the edge scores of a block whose positions have edge attributes."""
        edge_scores(block, self.weights, out)

    def mask(self, starts: NDArray[np.bool_], ends: NDArray[np.bool_], states: Floats) -> None:
        """-inf for labels that may not start a sequence where one starts, or end one where one ends."""
        for marks, never in ((starts, self.never_first), (ends, self.never_last)):
            if never.size:
                states[np.ix_(np.flatnonzero(marks), never)] = -np.inf

    def check_scores(self, low: int, block: Block, block_rows: BlockRows) -> None:
        """Raise where a score of the block that begins at position `low` overflows."""
        check_scores(self.layout, self.weights, low, block, block_rows)
