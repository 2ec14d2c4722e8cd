"""Scores of a block, and what the observed labels score.

    s_t(j)   = Σ_a x_t(a) · W[a, j]                      state scores   [B, width]
    e_t(i,j) = V[i, j] + Σ_b z_t(b) · U[b, i, j]         edge scores    [B, N, width]

Rows are padded from N labels to `width`, a multiple of the vector width. A padded label scores -inf, hence has
probability zero everywhere, and no kernel needs to know where the labels end.

W is kept in two parts. The first `dense` attributes, which are the frequent ones, have a full padded row each; every
later one has a short row of (label, weight) entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.kernels.jit import CONTRACT, STRICT, kernel
from chainfold.kernels.simd import WIDTH, fma, load, splat, store

NO_LABEL = -1


class Rows(NamedTuple):
    """The layout of the state weights that kernels see; `Slots` has the numbers."""

    dense: int  # attributes 0 … dense-1 have padded rows
    begin: NDArray[np.int64]  # [V - dense + 1]  where the entries of each later attribute begin
    label: NDArray[np.int32]  # [entries]  their labels, ascending in each row


class Slots(NamedTuple):
    """One number for each weight, padding included: the weights themselves, or counts of the same shape."""

    dense: NDArray[np.float64]  # [dense · width]
    sparse: NDArray[np.float64]  # [entries]
    transition: NDArray[np.float64]  # [N · width]
    edge: NDArray[np.float64]  # [K · N · width]


def padded(n_labels: int) -> int:
    """The width of a row of labels."""
    return -(-n_labels // WIDTH) * WIDTH


@kernel(fastmath=CONTRACT)
def state_scores(block: Any, rows: Any, weights: Any, blank: Any, out: Any) -> None:
    """out[t, j] = s_t(j); `blank` is the score of no attribute: 0 for a label, -inf for padding."""
    width = blank.size
    plain = block.values.size == 0
    all_dense = rows.begin.size == 1
    for t in range(block.labels.size):
        low, high = block.offsets[t], block.offsets[t + 1]
        for c in range(0, width, WIDTH):
            score = load(blank, c)
            if plain and all_dense:
                for k in range(low, high):
                    score = score + load(weights.dense, block.ids[k] * width + c)
            elif plain:
                for k in range(low, high):
                    if block.ids[k] < rows.dense:
                        score = score + load(weights.dense, block.ids[k] * width + c)
            else:
                for k in range(low, high):
                    if block.ids[k] < rows.dense and block.values[k] != 0.0:
                        score = fma(splat(block.values[k]), load(weights.dense, block.ids[k] * width + c), score)
            store(out, t * width + c, score)
        if not all_dense:
            for k in range(low, high):
                tail = block.ids[k] - rows.dense
                value = 1.0 if plain else block.values[k]
                if tail >= 0 and value != 0.0:
                    for entry in range(rows.begin[tail], rows.begin[tail + 1]):
                        out[t, rows.label[entry]] += value * weights.sparse[entry]


@kernel(fastmath=CONTRACT)
def edge_scores(block: Any, weights: Any, out: Any) -> None:
    """out[t, i·width + j] = e_t(i, j)."""
    size = weights.transition.size
    for t in range(block.labels.size):
        for c in range(0, size, WIDTH):
            score = load(weights.transition, c)
            for k in range(block.edge_offsets[t], block.edge_offsets[t + 1]):
                value = 1.0 if block.edge_values.size == 0 else block.edge_values[k]
                if value != 0.0:
                    score = fma(splat(value), load(weights.edge, block.edge_ids[k] * size + c), score)
            store(out, t * size + c, score)


@kernel(fastmath=STRICT, inline=True)
def sparse_slot(rows: Any, attribute: Any, label: Any) -> Any:
    """Where the weight of (attribute, label) stands among the sparse ones, -1 if there is none."""
    low, high = rows.begin[attribute - rows.dense], rows.begin[attribute - rows.dense + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if rows.label[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low if low < end and rows.label[low] == label else -1


@kernel(fastmath=STRICT)
def observe(
    block: Any, rows: Any, weights: Any, width: Any, previous: Any, weight: Any, forbidding: Any, counts: Any
) -> Any:
    """Add what the block's own labels count to `counts`; `previous` is the label before the block, `weight` its weight.

    An attribute counts with the weight of its position, an edge with that of the position it comes from. Returns (the
    last label, the first position whose label is forbidden or -1); state weights are only looked at where some of them
    forbid. Positions without a label count nothing, and neither do the edges beside them.
    """
    forbidden = -1
    size = weights.transition.size
    plain, plain_edges, weighted = block.values.size == 0, block.edge_values.size == 0, block.weights.size > 0
    for t in range(block.labels.size):
        label = block.labels[t]
        before, weight = weight, block.weights[t] if weighted else 1.0
        if label == NO_LABEL:
            previous = label
            continue
        for k in range(block.offsets[t], block.offsets[t + 1]):
            value = 1.0 if plain else block.values[k]
            attribute = block.ids[k]
            if attribute < rows.dense:
                slot = attribute * width + label
                counts.dense[slot] += weight * value
                if forbidding and weights.dense[slot] == -np.inf and value != 0.0 and forbidden < 0:
                    forbidden = t
            else:
                slot = sparse_slot(rows, attribute, label)
                if slot >= 0:
                    counts.sparse[slot] += weight * value
                    if forbidding and weights.sparse[slot] == -np.inf and value != 0.0 and forbidden < 0:
                        forbidden = t
        if previous != NO_LABEL and not block.starts[t]:
            pair = previous * width + label
            counts.transition[pair] += before
            if weights.transition[pair] == -np.inf and forbidden < 0:
                forbidden = t
            if block.edge_offsets.size:
                for k in range(block.edge_offsets[t], block.edge_offsets[t + 1]):
                    value = 1.0 if plain_edges else block.edge_values[k]
                    slot = block.edge_ids[k] * size + pair
                    counts.edge[slot] += before * value
                    if weights.edge[slot] == -np.inf and value != 0.0 and forbidden < 0:
                        forbidden = t
        previous = label
    return previous, forbidden
