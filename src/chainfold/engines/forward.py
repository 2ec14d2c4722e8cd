"""Forward over the blocks of a chain: scores, back-pointers, forward vectors, and what one block hands to the next.

Scorer    the weights of a model as kernels want them; scores blocks, in any order
Forward   goes over scored blocks in their order, for the best labels and for posteriors
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block, frozen
from chainfold.engines.block_pass import NO_FLOW, Belief, Potentials
from chainfold.engines.rounding import Extent, ScoreSizes, check_scores
from chainfold.errors import ScoreNotFinite, ZeroProbability
from chainfold.kernels import decode, messages
from chainfold.kernels.scores import edge_scores, state_scores
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


class Passed(NamedTuple):
    """A block after the forward pass."""

    lattice: messages.Lattice
    log_scale: tuple[float, float]  # a sum
    shift: Floats  # [B or 1]  what was taken out of the scores of transitions; nothing where numbers are wide


class Scorer(Potentials):
    """The weights of a model as kernels want them."""

    def __init__(self, model: Model) -> None:
        self._layout, self._sizes = model.layout, ScoreSizes(model.layout, model.weights)
        self._weights = self._layout.view(self._layout.pack(model.weights))
        masked = model.first is not None or model.last is not None
        super().__init__(self._layout, self._weights, masked=masked)
        with np.errstate(over="ignore"):  # where the difference leaves the range, the edge is zero
            self.log_edge = np.where(self.edge > 0.0, self.scores - self.shift, 0.0).ravel()
        self.never_first, self.never_last = (
            np.flatnonzero([] if mask is None else np.logical_not(mask)) for mask in (model.first, model.last)
        )

    def score(self, low: int, block: Block, ended: bool) -> Scored:
        """low: the position of the block; ended: does a sequence end with it?"""
        size, own = block.labels.size, block.edge_offsets.size > 0
        ends = np.append(block.starts[1:], ended)
        edges = np.empty((size, self.scores.size)) if own else self.scores
        scored = Scored(block.starts, ends, np.empty((size, self.width)), edges, own)
        if self._sizes.may_overflow(Extent.of(block)):
            check_scores(self._layout, self._weights, low, block)
        self.score_again(block, scored)
        return scored

    def score_again(self, block: Block, scored: Scored) -> None:
        """The same scores once more, after something else has taken their place."""
        state_scores(self._layout.find_rows(block), self._layout.rows, self._weights, self._layout.blank, scored.states)
        for marks, never in ((scored.starts, self.never_first), (scored.ends, self.never_last)):
            if never.size:
                scored.states[np.ix_(np.flatnonzero(marks), never)] = -np.inf
        if scored.own:
            edge_scores(block, self._weights, scored.edges)


class Forward:
    """The forward pass: the best score and the forward vector of every label, carried from block to block."""

    def __init__(self, scorer: Scorer, watch: bool = False) -> None:
        """watch: forward vectors of any label matter, however improbable it is."""
        self._scorer, self._watch = scorer, watch
        self._pointer = np.uint8 if scorer.n_labels <= 256 else np.uint16
        self._score = np.zeros(2)
        self.delta = np.zeros(scorer.width)
        self.belief = Belief(np.zeros(scorer.width))

    @property
    def heads(self) -> NDArray[np.int64]:
        """The labels that are possible at the last position."""
        return np.flatnonzero(self.delta[: self._scorer.n_labels] > -np.inf)

    def viterbi(self, low: int, scored: Scored) -> tuple[NDArray[Any], NDArray[np.int64], Floats]:
        """Back-pointers; for each sequence that ends here, its best last label and the score of that."""
        if scored.own:
            wrong = np.flatnonzero(~(scored.edges < np.inf).all(axis=1) & ~scored.starts)
            if wrong.size:
                raise ScoreNotFinite(low + int(wrong[0]))
        count = int(np.count_nonzero(scored.ends))
        back = np.empty((scored.starts.size, self._scorer.n_labels), self._pointer)
        finals, best = np.empty(count, np.int64), np.empty(count)
        status, fault = decode.viterbi(*scored[:4], self.delta, self._score, back, finals, best)
        if status == messages.ZERO:
            raise ZeroProbability(low + fault)
        if status == messages.NOT_FINITE:
            raise ScoreNotFinite(low + fault)
        return back, finals, best

    def lattice(self, low: int, block: Block, scored: Scored, wide: bool = False) -> Passed:
        """Forward vectors, after `viterbi` of the same block, which begins at position `low`; the scores are used up.

        They are real numbers where these have the range, unless told otherwise, and else wide ones.
        """
        entry = None if wide else self.belief.real()
        if entry is not None:
            predicted = np.empty_like(scored.states)
            shift = np.empty(scored.starts.size) if scored.own else self._scorer.shift
            log_scale = self._forward_real(scored, predicted, entry, shift)
            if log_scale is not None:
                edge = scored.edges if scored.own else self._scorer.edge
                return self._passed(block, scored.states, predicted, edge, Belief(entry), log_scale, shift)
        if not wide:
            self._scorer.score_again(block, scored)
        before = Belief(self.belief.widened(), wide=True)
        alpha, predicted = np.empty((2, scored.starts.size, 2 * self._scorer.width))
        status, log_scale, fault = messages.forward_wide(
            scored.starts, scored.states, scored.edges, before.values, self._scorer.n_labels, alpha, predicted
        )
        if status == messages.NOT_FINITE:
            raise ScoreNotFinite(low + fault)
        if status == messages.ZERO:  # Viterbi has found a way, but in a stream that was restored they may differ
            raise ZeroProbability(low + fault)
        return self._passed(block, alpha, predicted, scored.edges, before, log_scale, np.zeros(1))

    def _passed(
        self,
        block: Block,
        alpha: Floats,
        predicted: Floats,
        edge: Floats,
        entry: Belief,
        log_scale: tuple[float, float],
        shift: Floats,
    ) -> Passed:
        self.belief, _ = Belief(alpha[-1], entry.wide).normalised()
        return Passed(lattice_of(block.starts, block.labels, alpha, predicted, edge, entry), log_scale, shift)

    def _forward_real(
        self, scored: Scored, predicted: Floats, entry: Floats, shift: Floats
    ) -> tuple[float, float] | None:
        """The log of the scale; None where real numbers do not have the range."""
        p = self._scorer
        edge, watch = p.edge, p.watch or self._watch
        if scored.own:
            edge, watch = scored.edges, True
            if not messages.exponentiate_edges(edge, shift) <= messages.EDGE_RANGE:
                return None
        elif p.only_wide:
            return None
        status, log_scale = messages.forward(
            scored.starts, scored.states, predicted, edge, shift, entry, p.n_labels, watch, p.tiles
        )
        return log_scale if status == messages.OK else None


def lattice_of(
    starts: NDArray[np.bool_], labels: Labels, alpha: Floats, predicted: Floats, edge: Floats, entry: Belief
) -> messages.Lattice:
    """A block after the forward pass, its positions without weights."""
    no_weights, n_labels = frozen(None, np.float64), edge.shape[1] // (entry.values.size // (1 + entry.wide))
    return messages.Lattice(
        starts, alpha, predicted, edge, entry.values, labels, no_weights, *NO_FLOW, entry.wide, n_labels
    )
