"""Sequences of a batch of emissions, forward and back; `kernels.lattice` has the recursion.

    s_t(j)   = emission of row t and label j; + start(j) where a sequence starts; + end(j) where it ends
    e_t(i,j) = transition(i, j) + edges(t, i, j)

Position t of the chain is row rows[t] of the emissions; starts[t] where a sequence starts. Stretch k has positions
cuts[k] … cuts[k+1]-1: a sequence, or a part of one whose past and future are known. `places` are (rows, starts, cuts),
`scores` (emissions, start, end, allowed), `steps` (edge, edge_t, shift, watch, tiles) of `engines.transitions`: tuples,
which are quicker to pass than arrays one by one. The kept forward vectors are all that the way back needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.core.faults import OK
from chainfold.kernels.backward import count_edges, normalise, step_back
from chainfold.kernels.forward import by_tiles, forward, step_row
from chainfold.kernels.lattice import TINY, end_posterior, two_sum
from chainfold.kernels.scores import sizes
from chainfold.kernels.simd import load_tile, maximum, place, splat, store
from chainfold.system.jit import CONTRACT, STRICT, kernel

BLOCK = 1024
"""Positions whose predictions are kept at a time on the way forward."""

_TILE = 32  # positions whose edges are counted together


@kernel(fastmath=STRICT)
def pad_scores(transitions: Any, start: Any, end: Any, padded: Any, ends: Any) -> Any:
    """padded: [N, width], -inf for padding; ends: [2, N], start and end. Returns whether one of these is -inf."""
    n_labels, restricted = start.size, False
    for i in range(n_labels):
        for j in range(n_labels):
            padded[i, j] = transitions[i, j]
        for j in range(n_labels, padded.shape[1]):
            padded[i, j] = -np.inf
        ends[0, i], ends[1, i] = start[i], end[i]
        restricted = restricted or start[i] == -np.inf or end[i] == -np.inf
    return restricted


@kernel(fastmath=STRICT)
def place_positions(mask: Any, batch_first: Any, rows: Any, starts: Any, offsets: Any) -> None:
    """The positions that a mask leaves, sequence by sequence; rows and starts have room for all of them."""
    size, length = (mask.shape[0], mask.shape[1]) if batch_first else (mask.shape[1], mask.shape[0])
    at, offsets[0] = 0, 0
    for s in range(size):
        for t in range(length):
            if mask[s, t] if batch_first else mask[t, s]:
                rows[at] = s * length + t if batch_first else t * size + s
                starts[at] = at == offsets[s]
                at += 1
        offsets[s + 1] = at


@kernel(fastmath=STRICT)
def score_states(scores: Any, places: Any, low: Any, high: Any, out: Any) -> None:
    """out: [high - low, width], the state scores of positions, -inf for padding and labels not in `allowed`."""
    emissions, start, end, allowed = scores
    rows, starts, _ = places
    n_labels = start.size
    for t in range(low, high):
        row, to = rows[t], t - low
        for j in range(n_labels):
            out[to, j] = emissions[row, j]
        for j in range(n_labels, out.shape[1]):
            out[to, j] = -np.inf
        if starts[t]:
            for j in range(n_labels):
                out[to, j] += start[j]
        if t + 1 == starts.size or starts[t + 1]:
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
def forward_stretches(
    scores: Any, places: Any, steps: Any, pasts: Any, low: Any, high: Any, alpha: Any, log_z: Any, status: Any
) -> None:
    """Forward vectors of stretches low … high-1. alpha: [P, width]; log_z, status: [K], what each adds to log Z.

    pasts: [K, width], forward vectors before stretches that do not begin a sequence; they sum to one.
    """
    starts, cuts = places[1], places[2]
    edge, _, shift, watch, tiles = steps
    width = alpha.shape[1]
    n_labels = edge.shape[1] // width
    predicted, entry = np.empty((BLOCK, width)), np.zeros(width)
    for k in range(low, high):
        first, last = cuts[k], cuts[k + 1]
        total, compensation = 0.0, 0.0
        status[k] = OK
        if first < last and not starts[first]:
            entry[:] = pasts[k]
        for t in range(first, last, BLOCK):
            until = min(t + BLOCK, last)
            if t > first:
                end_posterior(alpha[t - 1], False, n_labels, entry)
            score_states(scores, places, t, until, alpha[t:until])
            fault, scale = forward(
                starts[t:until], alpha[t:until], predicted, edge, shift, entry, n_labels, watch, tiles
            )
            if fault != OK:
                status[k] = fault
                break
            total, compensation = two_sum(total, compensation, scale[0])
            compensation += scale[1]
        log_z[k] = total + compensation


@kernel(fastmath=CONTRACT)
def backward_stretches(
    places: Any, steps: Any, futures: Any, low: Any, high: Any, alpha: Any, factor: Any, gradient: Any, pairs: Any,
    ends: Any,
) -> None:  # fmt: skip
    """Add factor[k] times the posteriors of stretches low … high-1 to the gradient, and of their edges to pairs.

    alpha: [P, width], forward vectors. A stretch whose first one is not a number is left out. gradient: [R, N].
    futures: [K, width], the posteriors of the last positions of stretches that do not end a sequence.
    pairs: [N, width]. ends: [2, width], the posteriors of first and of last positions of sequences.
    """
    rows, starts, cuts = places
    edge, edge_t, _, _, tiles = steps
    tile, columns, width = sizes(tiles)
    n_labels = edge_t.shape[0]
    ahead, back = by_tiles(edge, n_labels, tiles), by_tiles(edge_t, n_labels, tiles)
    gamma, v, counts = np.zeros(width), np.empty((_TILE + 1, width)), np.zeros((width, width))
    for k in range(low, high):
        first, until = cuts[k], cuts[k + 1]
        if first == until or np.isnan(alpha[first, 0]):
            continue
        if until < starts.size and not starts[until]:
            gamma[:] = futures[k]
        else:
            end_posterior(alpha[until - 1], False, n_labels, gamma)
            for j in range(n_labels):
                ends[1, j] += factor[k] * gamma[j]
        held, begin = load_tile(gamma, 0, tile), first + 1 if starts[first] else first
        for t in range(until - 1, first - 1, -1):
            row = rows[t]
            for j in range(n_labels):
                gradient[row, j] += factor[k] * gamma[j]
            if starts[t]:
                for j in range(n_labels):
                    ends[0, j] += factor[k] * gamma[j]
                break
            before, slot = place(alpha, (t - 1) * width), (t - begin) % _TILE
            held_before = load_tile(before, 0, tile)
            for c in range(0, width, columns):
                predicted = step_row(before, held_before, ahead, c * n_labels, columns, n_labels, tiles)
                inverse = splat(1.0) / maximum(predicted, splat(TINY))  # γ need not be waited for
                if columns < width:
                    held = load_tile(gamma, c, tile)
                held = held * inverse
                store(v, (slot + 1) * width + c, held)
            v_here, held_v = place(v, (slot + 1) * width), held
            for c in range(0, width, columns):
                returned = step_row(v_here, held_v, back, c * n_labels, columns, n_labels, tiles)
                held = load_tile(before, c, tile) * returned
                store(gamma, c, held)
            if slot == 0:
                count_edges(before, v, 1, min(_TILE, until - t) + 1, n_labels, tiles, counts)
                normalise(gamma, tiles)
                held = load_tile(gamma, 0, tile)
        for i in range(n_labels):
            for j in range(n_labels):
                pairs[i, j] += factor[k] * counts[i, j] * edge[0, i * width + j]
                counts[i, j] = 0.0


@kernel(fastmath=STRICT)
def backward_general(lattice: Any, gamma: Any, factor: Any, out: Any, pairs: Any, edges: Any) -> None:
    """Add factor times the posteriors of one sequence to `out`, and those of its edges to `pairs` or, where each
    position has edges of its own, to `edges`; any lattice will do.

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
def check_tags(rows: Any, tags: Any, n_labels: Any, unknown: Any) -> Any:
    """The row of the first tag that is no label, or -1; and is any tag unknown? tags: [R]."""
    any_unknown = False
    for t in range(rows.size):
        tag = tags[rows[t]]
        if tag == unknown:
            any_unknown = True
        elif tag < 0 or tag >= n_labels:
            return rows[t], any_unknown
    return -1, any_unknown


@kernel(fastmath=STRICT)
def score_tags(
    scores: Any, places: Any, transitions: Any, edges: Any, tags: Any, low: Any, high: Any, score: Any
) -> None:
    """score[k]: the sum of the scores of the tags of stretches low … high-1. transitions: [1, N · width]; tags: [R]."""
    emissions, start, end, _ = scores
    rows, starts, cuts = places
    width = transitions.size // start.size
    for k in range(low, high):
        total, compensation = 0.0, 0.0
        for t in range(cuts[k], cuts[k + 1]):
            row = rows[t]
            tag = tags[row]
            term = np.float64(emissions[row, tag])
            if starts[t]:
                term += start[tag]
            else:
                before = tags[rows[t - 1]]
                term += transitions[0, before * width + tag]
                if edges.size:
                    term += edges[row, before, tag]
            if t + 1 == starts.size or starts[t + 1]:
                term += end[tag]
            if abs(term) < np.inf and abs(total) < np.inf:
                total, compensation = two_sum(total, compensation, term)
            else:
                total += term
        score[k] = total + compensation


@kernel(fastmath=STRICT)
def count_tags(
    places: Any, tags: Any, low: Any, high: Any, factor: Any, gradient: Any, pairs: Any, ends: Any, edges: Any
) -> None:
    """Add factor[k] times the counts of the tags."""
    rows, starts, cuts = places
    for k in range(low, high):
        for t in range(cuts[k], cuts[k + 1]):
            row = rows[t]
            tag = tags[row]
            gradient[row, tag] += factor[k]
            if starts[t]:
                ends[0, tag] += factor[k]
            else:
                before = tags[rows[t - 1]]
                pairs[before, tag] += factor[k]
                if edges.size:
                    edges[row, before, tag] += factor[k]
            if t + 1 == starts.size or starts[t + 1]:
                ends[1, tag] += factor[k]


@kernel(fastmath=STRICT)
def take_sums(pairs: Any, ends: Any, transitions: Any, start: Any, end: Any) -> None:
    """Sums in doubles become gradients in the type of the scores."""
    for i in range(start.size):
        for j in range(start.size):
            transitions[i, j] = pairs[i, j]
        start[i], end[i] = ends[0, i], ends[1, i]
