"""The best labelling, for one sentence at a time; `viterbi.hpp` has it for blocks.

Viterbi goes forward over the blocks and carries the best score of each label; the way back through a block begins with
the label of its last position. A sequence is from a start mark to an end mark; scores of labels that may not start or
end one are -inf already.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.core.faults import NOT_FINITE, OK, ZERO
from chainfold.core.slots import WIDTH
from chainfold.kernels.lattice import two_sum
from chainfold.kernels.simd import load, max_lanes, maximum, splat, store, where_positive
from chainfold.system.jit import STRICT, kernel


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
