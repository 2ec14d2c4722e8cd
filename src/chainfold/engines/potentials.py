"""The weights of a model as kernels take them: its transitions, and the scores of blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.core import edge_scores, state_scores
from chainfold.core.slots import BlockRows, Slots
from chainfold.engines.rounding import check_scores
from chainfold.engines.transitions import Transitions
from chainfold.model.layout import Floats
from chainfold.model.model import Model


class Potentials(Transitions):
    """The weights of a model as kernels take them: its transitions, and the scores of blocks."""

    def __init__(self, model: Model, weights: Slots, has_edges: bool = False) -> None:
        """weights: those of the model, packed; has_edges: every position has a transition matrix of its own."""
        layout = model.layout
        self.layout, self.weights = layout, weights
        masked = model.first is not None or model.last is not None
        super().__init__(weights.transition.reshape(1, -1), layout.n_labels, masked, has_edges)
        self.never_first, self.never_last = (
            np.flatnonzero([] if mask is None else np.logical_not(mask)) for mask in (model.first, model.last)
        )

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
