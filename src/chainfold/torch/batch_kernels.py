"""Sequences of a batch of emissions, forward and back; `kernels.lattice` has the recursion.

    s_t(j)   = emission of row t and label j; + start(j) where a sequence starts; + end(j) where it ends
    e_t(i,j) = transition(i, j) + edges(t, i, j)

Position t of the chain is row rows[t] of the emissions; sequence s has positions offsets[s] … offsets[s+1]-1. The kept
forward vectors are all that the way back needs: it computes the predictions again, block by block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.kernels.backward import step_back
from chainfold.kernels.faults import OK
from chainfold.kernels.forward import forward, predict
from chainfold.kernels.lattice import Lattice, two_sum
from chainfold.kernels.posteriors import count_pairs, posteriors
from chainfold.system.jit import CONTRACT, STRICT, kernel

BLOCK = 1024
"""Positions whose predictions are kept at a time."""


@kernel(fastmath=STRICT)
def score_states(
    emissions: Any, rows: Any, offsets: Any, low: Any, high: Any, start: Any, end: Any, allowed: Any, out: Any
) -> None:
    """out: [P, width], the state scores of sequences low … high-1, -inf for padding and labels not in `allowed`."""
    n_labels = start.size
    base = offsets[low]
    for s in range(low, high):
        for t in range(offsets[s], offsets[s + 1]):
            row, to = rows[t], t - base
            for j in range(n_labels):
                out[to, j] = emissions[row, j]
            for j in range(n_labels, out.shape[1]):
                out[to, j] = -np.inf
            if t == offsets[s]:
                for j in range(n_labels):
                    out[to, j] += start[j]
            if t == offsets[s + 1] - 1:
                for j in range(n_labels):
                    out[to, j] += end[j]
            if allowed.size:
                for j in range(n_labels):
                    if not allowed[row, j]:
                        out[to, j] = -np.inf


@kernel(fastmath=STRICT)
def score_edges(edges: Any, rows: Any, transitions: Any, out: Any) -> None:
    """out[t, i · width + j] = transition(i, j) + edges(rows[t], i, j); -inf for padding."""
    n_labels = edges.shape[1]
    width = out.shape[1] // n_labels
    for t in range(out.shape[0]):
        for i in range(n_labels):
            for j in range(width):
                out[t, i * width + j] = transitions[i * width + j] + edges[rows[t], i, j] if j < n_labels else -np.inf


@kernel(fastmath=STRICT)
def forward_sequences(
    offsets: Any,
    low: Any,
    high: Any,
    starts: Any,
    alpha: Any,
    edge: Any,
    shift: Any,
    watch: Any,
    tiles: Any,
    log_z: Any,
    status: Any,
) -> None:
    """alpha: [P, width], state scores of all sequences in, forward vectors of low … high-1 out. log_z, status: [S]."""
    width = alpha.shape[1]
    n_labels = edge.shape[1] // width
    predicted, entry = np.empty((BLOCK, width)), np.zeros(width)
    for s in range(low, high):
        first, last = offsets[s], offsets[s + 1]
        total, compensation = 0.0, 0.0
        status[s] = OK
        for t in range(first, last, BLOCK):
            until = min(t + BLOCK, last)
            if t > first:
                sum_ = 0.0
                for j in range(n_labels):
                    sum_ += alpha[t - 1, j]
                for j in range(width):
                    entry[j] = alpha[t - 1, j] / sum_
            fault, scale = forward(
                starts[t:until], alpha[t:until], predicted, edge, shift, entry, n_labels, watch, tiles
            )
            if fault != OK:
                status[s] = fault
                break
            total, compensation = two_sum(total, compensation, scale[0])
            compensation += scale[1]
        log_z[s] = total + compensation


@kernel(fastmath=CONTRACT)
def backward_sequences(
    offsets: Any,
    low: Any,
    high: Any,
    starts: Any,
    alpha: Any,
    edge: Any,
    edge_t: Any,
    tiles: Any,
    factor: Any,
    rows: Any,
    gradient: Any,
    pairs: Any,
    ends: Any,
) -> None:
    """Add factor[s] times the posteriors of sequences low … high-1 to the gradient, and of their edges to pairs.

    alpha: [P, width], forward vectors. A sequence whose first one is not a number is left out. gradient: [R, N].
    pairs: [N, width]. ends: [2, width], the posteriors of first and of last positions.
    """
    width = alpha.shape[1]
    n_labels = edge.shape[1] // width
    predicted, out, nothing = np.empty((BLOCK, width)), np.empty((BLOCK, width)), np.empty(0)
    gamma, no_labels, zero = np.zeros(width), np.empty(0, np.int32), np.zeros(width)
    for s in range(low, high):
        first, until = offsets[s], offsets[s + 1]
        if first == until or np.isnan(alpha[first, 0]):
            continue
        sum_ = 0.0
        for j in range(n_labels):
            sum_ += alpha[until - 1, j]
        for j in range(width):
            gamma[j] = alpha[until - 1, j] / sum_
            ends[1, j] += factor[s] * gamma[j]
        while until > first:
            t = max(until - BLOCK, first)
            entry = alpha[t - 1] if t > first else zero
            here = alpha[t:until]
            predict(starts[t:until], here, edge, entry, n_labels, tiles, predicted)
            lattice = Lattice(
                starts[t:until], here, predicted, edge, entry, no_labels, nothing, nothing, nothing, False, n_labels
            )
            posteriors(lattice, edge_t, gamma, out)
            for k in range(until - t):
                row = rows[t + k]
                for j in range(n_labels):
                    out[k, j] *= factor[s]
                    gradient[row, j] += out[k, j]
            count_pairs(lattice, out, pairs)
            until = t
        for j in range(n_labels):
            ends[0, j] += out[0, j]


@kernel(fastmath=STRICT)
def backward_general(lattice: Any, gamma: Any, factor: Any, out: Any, pairs: Any, edges: Any) -> None:
    """Add factor times the flow of one sequence to `out`, and that of its edges to `pairs` or, where each position has
    edges of its own, to `edges`; any lattice will do.

    gamma: [width], of the last position in. out: [B, N]; pairs: [N, width]; edges: [B, N, N] or empty.
    """
    n_labels = lattice.n_labels
    joint = np.zeros((n_labels, gamma.size))
    for t in range(lattice.alpha.shape[0] - 1, -1, -1):
        for j in range(n_labels):
            out[t, j] += factor * gamma[j]
        if lattice.starts[t]:
            break
        step_back(lattice, t, gamma, joint)
        for i in range(n_labels):
            for j in range(n_labels):
                pairs[i, j] += factor * joint[i, j]
        if edges.size:
            for i in range(n_labels):
                for j in range(n_labels):
                    edges[t, i, j] += factor * joint[i, j]


@kernel(fastmath=STRICT)
def score_tags(
    emissions: Any,
    rows: Any,
    offsets: Any,
    tags: Any,
    start: Any,
    end: Any,
    transitions: Any,
    edges: Any,
    low: Any,
    high: Any,
    score: Any,
) -> None:
    """score[s]: the sum of the scores of the tags of sequences low … high-1; tags: [R]."""
    width = transitions.size // start.size
    for s in range(low, high):
        total, compensation, before = 0.0, 0.0, 0
        for t in range(offsets[s], offsets[s + 1]):
            tag = tags[rows[t]]
            term = np.float64(emissions[rows[t], tag])
            if t == offsets[s]:
                term += start[tag]
            else:
                term += transitions[before * width + tag]
                if edges.size:
                    term += edges[rows[t], before, tag]
            if t == offsets[s + 1] - 1:
                term += end[tag]
            if abs(term) < np.inf and abs(total) < np.inf:
                total, compensation = two_sum(total, compensation, term)
            else:
                total += term
            before = tag
        score[s] = total + compensation


@kernel(fastmath=STRICT)
def count_tags(
    rows: Any,
    offsets: Any,
    tags: Any,
    weights: Any,
    low: Any,
    high: Any,
    factor: Any,
    gradient: Any,
    pairs: Any,
    ends: Any,
    edges: Any,
) -> None:
    """Add factor[s] times the counts of the tags, with the weights of their positions ([R], or empty: ones).

    An edge has the weight of the position that it comes from.
    """
    for s in range(low, high):
        before, weight = 0, 1.0
        for t in range(offsets[s], offsets[s + 1]):
            row = rows[t]
            tag = tags[row]
            if t > offsets[s]:
                pairs[before, tag] += factor[s] * weight
                if edges.size:
                    edges[row, before, tag] += factor[s] * weight
            weight = weights[row] if weights.size else 1.0
            gradient[row, tag] += factor[s] * weight
            if t == offsets[s]:
                ends[0, tag] += factor[s] * weight
            if t == offsets[s + 1] - 1:
                ends[1, tag] += factor[s] * weight
            before = tag
