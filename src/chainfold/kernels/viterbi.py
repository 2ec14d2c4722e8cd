"""The best labelling and the k best labellings, and which labels of a stream are final.

Viterbi goes forward over the blocks and carries the best score of each label; the way back through a block begins with
the label of its last position. A sequence is from a start mark to an end mark; scores of labels that may not start or
end one are -inf already.

A label is final when the best paths to all labels at the head of the stream go through it. That is asked in two steps:
`follow` carries the label of the oldest position along,

    origin(j) ← origin(back_t(j))            the label of the oldest position on the best path to label j at the head

at a price that does not depend on how many positions wait. When all origins agree, `coalesced` searches from the head
for the last position that is final.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.core.faults import NOT_FINITE, OK, ZERO
from chainfold.core.slots import WIDTH
from chainfold.jit.decorator import STRICT, kernel
from chainfold.kernels.lattice import two_sum
from chainfold.kernels.simd import load, max_lanes, maximum, splat, store, where_positive


@kernel(fastmath=STRICT)
def viterbi(
    starts: Any, ends: Any, scores: Any, edge: Any, delta: Any, total: Any, back: Any, finals: Any, best: Any
) -> Any:
    """δ_t(j) = s_t(j) + max_i (δ_{t-1}(i) + e_t(i,j)), its maximum taken out at each position; ties to the smaller i.

    scores: [B, width]  edge: [B or 1, N · width]  delta: [width], carried  total: [2], what was taken out since the
    sequence began, carried. back: [B, N], the i chosen, at a start mark the best last label of the sequence before.
    finals, best: for each sequence that ends here its last label and its score. Returns (status, position of a fault).
    """
    width, n_labels = scores.shape[1], back.shape[1]
    step = 1 if edge.shape[0] > 1 else 0
    high, choice = np.zeros(width), np.zeros(width)
    numbers = np.arange(float(n_labels))
    infinite = splat(np.inf)
    sequence = 0
    for t in range(scores.shape[0]):
        if starts[t]:
            label = 0
            for j in range(1, n_labels):
                if delta[j] > delta[label]:
                    label = j
            for j in range(width):
                high[j], choice[j] = 0.0, label
            total[0], total[1] = 0.0, 0.0
        else:
            base = t * step * n_labels * width
            for c in range(0, width, WIDTH):
                top, chosen = splat(-np.inf), splat(0.0)
                for i in range(n_labels):
                    reached = splat(delta[i]) + load(edge, base + i * width + c)
                    chosen = where_positive(reached - top, splat(numbers[i]), chosen)
                    top = maximum(reached, top)
                store(high, c, top)
                store(choice, c, chosen)
        peaks = splat(-np.inf)
        for c in range(0, width, WIDTH):
            reached = load(high, c) + load(scores, t * width + c)
            store(delta, c, reached)
            peaks = maximum(where_positive(infinite - reached, reached, infinite), peaks)  # what is no number, too
        peak = max_lanes(peaks)
        if peak == np.inf:
            return NOT_FINITE, t
        if peak == -np.inf:
            return ZERO, t
        for c in range(0, width, WIDTH):
            store(delta, c, load(delta, c) - splat(peak))
        for j in range(n_labels):
            back[t, j] = int(choice[j])
        total[0], total[1] = two_sum(total[0], total[1], peak)
        if ends[t]:
            label = 0
            while delta[label] < 0.0:
                label += 1
            finals[sequence], best[sequence] = label, total[0] + total[1]
            sequence += 1
    return OK, -1


@kernel(fastmath=STRICT)
def trace(back: Any, label: Any, labels: Any) -> Any:
    """The labels of a block whose last one is known, by y_{t-1} = back_t(y_t); returns the one before the block."""
    for t in range(back.shape[0] - 1, -1, -1):
        labels[t] = label
        label = back[t, label]
    return label


@kernel(fastmath=STRICT)
def coalesce(back: Any, heads: Any) -> None:
    """Each of the labels at the block's end becomes the label before the block on its best path: y ← back_t(y)."""
    merged = False
    for t in range(back.shape[0] - 1, -1, -1):
        if merged:
            heads[0] = back[t, heads[0]]
            continue
        merged = True
        for k in range(heads.size):
            heads[k] = back[t, heads[k]]
            merged = merged and heads[k] == heads[0]
    if merged:
        for k in range(heads.size):
            heads[k] = heads[0]


@kernel(fastmath=STRICT)
def follow(back: Any, heads: Any, origin: Any) -> Any:
    """Carry the origins over further positions; do those of all possible labels at the head agree?"""
    fresh = np.empty_like(origin)
    for t in range(back.shape[0]):
        for j in range(origin.size):
            fresh[j] = origin[back[t, j]]
        origin[:] = fresh
    same = True
    for k in range(1, heads.size):
        same = same and origin[heads[k]] == origin[heads[0]]
    return same


@kernel(fastmath=STRICT)
def coalesced(back: Any, heads: Any, origin: Any, labels: Any) -> Any:
    """The last position on which the best paths to all possible labels at the head agree, and the labels up to it.

    Returns how many positions that are. origin: [N], out: the label of the first position after them, for each label at
    the head.
    """
    path = heads.copy()
    for t in range(back.shape[0] - 1, -1, -1):
        same = True
        for k in range(1, path.size):
            same = same and path[k] == path[0]
        if same:
            label = path[0]
            for s in range(t, -1, -1):
                labels[s] = label
                label = back[s, label]
            return t + 1
        for k in range(path.size):
            origin[heads[k]] = path[k]
            path[k] = back[t, path[k]]
    return 0


@kernel(fastmath=STRICT)
def origins(back: Any, heads: Any, origin: Any) -> None:
    """origin(j): the label of the first position on the best path to j at the head."""
    for k in range(heads.size):
        label = heads[k]
        for t in range(back.shape[0] - 1, 0, -1):
            label = back[t, label]
        origin[heads[k]] = label


@kernel(fastmath=STRICT, inline=True)
def largest(numbers: Any) -> Any:
    """Where the largest number is, the first of several; -1 if all are -inf."""
    where, high = -1, -np.inf
    for i in range(numbers.size):
        if numbers[i] > high:
            where, high = i, numbers[i]
    return where


@kernel(fastmath=STRICT)
def rank(starts: Any, ends: Any, scores: Any, edge: Any, ranked: Any, back: Any, finals: Any, gaps: Any) -> None:
    """The k best scores of each label: δ_t(j, ·) = s_t(j) + the k largest of δ_{t-1}(i, q) + e_t(i,j), over i and q.

    ranked: [N, k], carried, the best of all taken out. back: [B, N, k], i · k + q. For each sequence that ends here,
    finals: [S, k], its k best last states j · k + r, -1 where there are fewer; gaps: their scores, less the best one.
    """
    width = scores.shape[1]
    n_labels, k = ranked.shape
    step = 1 if edge.shape[0] > 1 else 0
    fresh, heads, taken = np.empty((n_labels, k)), np.empty(n_labels), np.empty(n_labels, np.int64)
    sequence = 0
    for t in range(scores.shape[0]):
        peak = -np.inf
        for j in range(n_labels):
            for i in range(n_labels):  # the best of each i; once it is taken, the next best takes its place
                taken[i] = 0
                heads[i] = -np.inf if starts[t] else ranked[i, 0] + edge[t * step, i * width + j]
            for r in range(k):
                i = largest(heads)
                back[t, j, r] = 0
                fresh[j, r] = heads[i] + scores[t, j] if i >= 0 else -np.inf
                if i >= 0:
                    back[t, j, r] = i * k + taken[i]
                    taken[i] += 1
                    heads[i] = ranked[i, taken[i]] + edge[t * step, i * width + j] if taken[i] < k else -np.inf
            if starts[t]:
                fresh[j, 0] = scores[t, j]
            peak = max(peak, fresh[j, 0])
        for j in range(n_labels):
            for r in range(k):
                ranked[j, r] = fresh[j, r] - peak
        if ends[t]:
            for j in range(n_labels):
                taken[j], heads[j] = 0, ranked[j, 0]
            for r in range(k):
                j = largest(heads)
                gaps[sequence, r] = heads[j] if j >= 0 else -np.inf
                finals[sequence, r] = j * k + taken[j] if j >= 0 else -1
                if j >= 0:
                    taken[j] += 1
                    heads[j] = ranked[j, taken[j]] if taken[j] < k else -np.inf
            sequence += 1


@kernel(fastmath=STRICT)
def trace_ranked(ends: Any, back: Any, finals: Any, states: Any, labels: Any) -> None:
    """k paths back through a block, (y, r)_{t-1} = back_t((y, r)_t), each sequence from its own last states.

    states: [k], j · k + r or -1, of the last position in, of the position before the block out. labels: [k, B].
    """
    k = back.shape[2]
    sequence = finals.shape[0]
    for t in range(back.shape[0] - 1, -1, -1):
        if ends[t]:
            sequence -= 1
        for r in range(k):
            state = finals[sequence, r] if ends[t] else states[r]
            labels[r, t] = state // k if state >= 0 else -1
            states[r] = -1 if state < 0 else back[t, state // k, state % k]
