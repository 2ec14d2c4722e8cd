"""Labellings and posteriors of dense scores: the sequences of a batch as one chain with start marks.

Positions with a score that is not finite, or without a possible label, raise `ScoreNotFinite` or `ZeroProbability` with
their place in the chain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chainfold.core import draw, entropy, posteriors, rank, trace, trace_ranked, viterbi
from chainfold.core.faults import check
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief
from chainfold.engines.emissions import EmissionBatch
from chainfold.engines.forward_pass import forward_pass, lattice_of
from chainfold.errors import ScoreNotFinite
from chainfold.model.layout import Floats

Labels = NDArray[np.int64]


def best(batch: EmissionBatch) -> tuple[Labels, Floats]:
    """The best labels [P], and the score of each sequence's labelling [S]; 0 for an empty sequence."""
    layout = batch.layout
    starts, ends, lengths = layout.starts, _ends(batch), layout.lengths
    labels, score = np.empty(starts.size, np.int64), np.zeros(lengths.size)
    pointer = np.uint8 if batch.n_labels <= 256 else np.uint16

    def work(low: int, high: int) -> None:
        first, last = layout.offsets[[low, high]].tolist()
        if first == last:
            return
        here, present = slice(first, last), np.flatnonzero(lengths[low:high]) + low
        states, edges = batch.states(first, last), batch.edge_scores(first, last)
        scores = batch.transitions.scores if edges is None else edges
        wrong = np.flatnonzero(np.isnan(scores).any(axis=1) & ~starts[here])
        if wrong.size:
            raise ScoreNotFinite(first + int(wrong[0]))
        back = np.empty((last - first, batch.n_labels), pointer)
        finals, reached = np.zeros(present.size, np.int64), np.zeros(present.size)
        status, fault = viterbi(
            starts[here], ends[here], states, scores, np.zeros(batch.width), np.zeros(2), back, finals, reached
        )
        check(status, first + fault)
        found = np.empty(last - first, np.int32)
        trace(back, int(finals[-1]), found)
        labels[here], score[present] = found, reached

    batch.threads.run(work, layout.whole.tasks)
    return labels, score


def ranked(batch: EmissionBatch, k: int) -> list[tuple[NDArray[np.int32], Floats]]:
    """The labels [k, length] and scores [k] of the k best labellings of each sequence, best first; fewer if there are
    not so many."""
    (_, top), offsets, n = best(batch), batch.layout.offsets, batch.n_labels
    starts, ends = batch.layout.starts, _ends(batch)

    def work(s: int) -> tuple[NDArray[np.int32], Floats]:
        first, last = offsets[s : s + 2].tolist()
        here, size = slice(first, last), last - first
        most = most_labellings(k, n, size)
        labels, gaps = np.empty((most, size), np.int32), np.zeros((1, most))
        if size:
            states, edges = batch.states(first, last), batch.edge_scores(first, last)
            scores = batch.transitions.scores if edges is None else edges
            back, finals = np.empty((size, n, most), np.uint32), np.empty((1, most), np.int64)
            rank(starts[here], ends[here], states, scores, np.full((n, most), -np.inf), back, finals, gaps)
            trace_ranked(ends[here], back, finals, np.full(most, -1, np.int64), labels)
        own = gaps[0, gaps[0] > -np.inf]
        return labels[: own.size], top[s] + own

    return batch.threads.run(work, [(s,) for s in range(offsets.size - 1)])


def most_labellings(k: int, n_labels: int, length: int) -> int:
    """min(k, n_labels^length) without numbers much larger than k."""
    labellings: int = n_labels ** min(length, k.bit_length())
    return min(k, labellings)


def marginals(batch: EmissionBatch) -> Floats:
    """[P, N] the probability of each label at each position."""
    lattice, gamma = _lattice(batch)
    out = np.empty((batch.positions, batch.width))
    check(posteriors(lattice, _edge_t(batch, lattice), gamma, out))
    return out[:, : batch.n_labels]


def drawn(batch: EmissionBatch, uniforms: Floats) -> NDArray[np.int32]:
    """Labellings [P, k] drawn from their distribution; uniforms: [P, k], numbers from [0, 1)."""
    lattice, gamma = _lattice(batch)
    out = np.empty((batch.positions, batch.width))
    check(posteriors(lattice, _edge_t(batch, lattice), gamma, out))
    labels = np.zeros((batch.positions + 1, uniforms.shape[1]), np.int32)
    draw(lattice, out, uniforms, labels)
    return labels[1:]


def entropies(batch: EmissionBatch) -> Floats:
    """[S] the entropy of each sequence's labelling, in nats; 0 for an empty sequence."""
    lengths = batch.layout.lengths
    found, out = np.zeros(np.count_nonzero(lengths)), np.zeros(lengths.size)
    lattice, _ = _lattice(batch)
    shared = not lattice.wide and lattice.edge is batch.transitions.edge
    log_edge = batch.transitions.log_edge if shared else np.empty(0)
    entropy(lattice, _ends(batch), log_edge, np.zeros(batch.width), np.zeros(2), found)
    out[lengths > 0] = found
    return out


def _ends(batch: EmissionBatch) -> NDArray[np.bool_]:
    """[P] where a sequence ends."""
    return np.append(batch.layout.starts[1:], batch.positions > 0)[: batch.positions]


def _edge_t(batch: EmissionBatch, lattice: Lattice) -> Floats:
    """E transposed where all positions share one matrix of doubles, else empty."""
    return batch.transitions.edge_t if lattice.edge is batch.transitions.edge else np.empty((0, 0))


def _lattice(batch: EmissionBatch) -> tuple[Lattice, Floats]:
    """All positions after the forward pass, and the posterior of the last one."""
    size, starts = batch.positions, batch.layout.starts
    states, edges = batch.states(0, size), batch.edge_scores(0, size)

    def score_again() -> None:
        states[:] = batch.states(0, size)
        if edges is not None:
            edges[:] = batch.edge_scores(0, size)

    passed = forward_pass(
        batch.transitions, 0, starts, states, edges, Belief(np.zeros(batch.width)), score_again, watch=True
    )
    labels = np.zeros(size, np.int32)
    lattice = lattice_of(starts, labels, passed.alpha, passed.predicted, passed.edge, passed.entry)
    return lattice, passed.exit.posterior()
