"""The core of all inference, for whole chains and for streams: scores, Viterbi, forward vectors, posteriors.

Scorer         scores blocks, in any order and from any thread
Decoder        goes over scored blocks in their order, for the best labels and for forward vectors
posteriors_of  back over a block, once the posterior of its last position is known
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block
from chainfold.core import posteriors, viterbi
from chainfold.core.faults import check, check_memory
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief
from chainfold.engines.forward_pass import Passed, forward_pass, lattice_of
from chainfold.engines.potentials import Potentials
from chainfold.engines.rounding import Extent, ScoreSizes
from chainfold.errors import ScoreNotFinite
from chainfold.model.block_rows import find_block_rows
from chainfold.model.layout import Floats
from chainfold.model.model import Model

SCORERS = 2
"""Threads that score the next pieces of a block, which takes several times as long as what follows."""

Labels = NDArray[np.int32]


class Scored(NamedTuple):
    """The scores of a block."""

    starts: NDArray[np.bool_]  # [B]
    ends: NDArray[np.bool_]  # [B]
    states: Floats  # [B, width], -inf for labels that may not start or end a sequence where one does
    edges: Floats  # [B or 1, N · width]
    own: bool  # are the edges its own, and not shared by all positions?


class Scorer:
    """The weights of a model, ready to score blocks."""

    def __init__(self, model: Model, potentials: Potentials | None = None) -> None:
        """potentials: those of the model, where they are known."""
        layout = model.layout
        self._layout, self._sizes = layout, ScoreSizes(layout, model.weights)
        self.potentials = potentials or Potentials(model, layout.view(layout.pack(model.weights)))

    @property
    def most_summed(self) -> float:
        """Attributes times the size of a value up to which no score of a position can overflow."""
        return self._sizes.most_summed

    def score(self, low: int, block: Block, ended: bool) -> Scored:
        """low: the position of the block; ended: does a sequence end with it?"""
        p, size, own = self.potentials, block.labels.size, block.edge_offsets.size > 0
        ends = np.empty(size, np.bool_)
        ends[:-1], ends[-1:] = block.starts[1:], ended
        edges = np.empty((size, p.scores.size)) if own else p.scores
        scored = Scored(block.starts, ends, np.empty((size, p.width)), edges, own)
        if self._sizes.may_overflow(Extent.of(block)):
            p.check_scores(low, block, find_block_rows(self._layout, block))
        self.score_again(block, scored)
        return scored

    def score_again(self, block: Block, scored: Scored) -> None:
        """Compute the same scores once more, after forward vectors have replaced them."""
        self.potentials.score_states(find_block_rows(self._layout, block), scored.states)
        self.potentials.mask(scored.starts, scored.ends, scored.states)
        if scored.own:
            self.potentials.score_edges(block, scored.edges)


class Decoder:
    """The best score and the forward vector of every label, carried from block to block."""

    def __init__(self, scorer: Scorer, watch: bool = False) -> None:
        """watch: forward vectors of all labels matter, however improbable they are."""
        p = scorer.potentials
        self._scorer, self._potentials, self._watch = scorer, p, watch
        self.n_labels = p.n_labels
        self.pointer = np.uint8 if p.n_labels <= 256 else np.uint16
        self._score = np.zeros(2)
        self.delta = np.zeros(p.width)
        self.belief = Belief(np.zeros(p.width))

    @property
    def heads(self) -> NDArray[np.int64]:
        """The labels that are possible at the last position."""
        return np.flatnonzero(self.delta[: self.n_labels] > -np.inf)

    @property
    def best_head(self) -> int:
        """The label at the last position on the best path so far."""
        return int(np.argmax(self.delta[: self.n_labels]))

    def viterbi(self, low: int, scored: Scored) -> tuple[NDArray[Any], NDArray[np.int64], Floats]:
        """Back-pointers; for each sequence that ends here, its best last label and the score of that."""
        if scored.own:
            wrong = np.flatnonzero(~(scored.edges < np.inf).all(axis=1) & ~scored.starts)
            if wrong.size:
                raise ScoreNotFinite(low + int(wrong[0]))
        count = int(np.count_nonzero(scored.ends))
        back = np.empty((scored.starts.size, self.n_labels), self.pointer)
        finals, best = np.empty(count, np.int64), np.empty(count)
        status, fault = viterbi(*scored[:4], self.delta, self._score, back, finals, best)
        check(status, low + fault)
        return back, finals, best

    def forward(self, low: int, block: Block, scored: Scored, wide: bool = False) -> tuple[Lattice, Passed]:
        """Forward vectors, after `viterbi` of the same block, which begins at position `low`; they replace the scores.

        wide: use wide numbers even where doubles have the range.
        """
        passed = forward_pass(
            self._potentials,
            low,
            scored.starts,
            scored.states,
            scored.edges if scored.own else None,
            self.belief,
            lambda: self._scorer.score_again(block, scored),
            watch=self._watch,
            wide=wide,
        )
        self.belief = passed.exit
        return lattice_of(block.starts, block.labels, passed.alpha, passed.predicted, passed.edge, passed.entry), passed


def posteriors_of(potentials: Potentials, lattice: Lattice, gamma: Floats) -> tuple[Floats, Floats]:
    """From the posterior of the last position: that of the position before the lattice, and all those in it."""
    gamma, out = gamma.copy(), np.empty((lattice.starts.size, potentials.width))
    shared = lattice.edge is potentials.edge
    check_memory(posteriors(lattice, potentials.edge_t if shared else np.empty((0, 0)), gamma, out))
    return gamma, out
