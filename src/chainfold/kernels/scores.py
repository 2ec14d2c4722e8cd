"""Scores of a block, and what the observed labels score.

    s_t(j)   = Σ_a x_t(a) · W[a, j]                      state scores   [B, width]
    e_t(i,j) = V[i, j] + Σ_b z_t(b) · U[b, i, j]         edge scores    [B, N, width]

Rows are padded from N labels to `width`, a multiple of the vector width. A padded label scores -inf, hence has
probability zero everywhere, and no kernel needs to know where the labels end.

W is kept in two parts. The first `dense` attributes, which are the frequent ones, have a full padded row each; every
later one has a short row of (label, weight) entries. The rows of a block's attributes are looked up once, padded ones
first at each position, so that the loops over them neither look anything up nor ask which kind they have before them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.chain.block import NO_LABEL
from chainfold.core.slots import WIDTH, BlockRows
from chainfold.jit.decorator import CONTRACT, STRICT, kernel
from chainfold.jit.intrinsics import prefetch
from chainfold.kernels.simd import fma, load, load_tile, number, place, set_number, splat, store

AHEAD = 2
"""Positions from the one being worked on to the one whose rows are fetched."""

_ENTRIES_AHEAD = 512  # of a block: the processor fetches no further than to the end of a page

PORTION = 2048
"""Positions after which recent counts are added to the next level."""

COUNT_BITS = 16
COUNT = (1 << COUNT_BITS) - 1


@kernel(fastmath=STRICT, inline=True)
def sizes(tiles: Any) -> Any:
    """A tile, its columns, and the width of a row: known when a kernel is compiled."""
    return tiles[0], WIDTH * len(tiles[0]), WIDTH * len(tiles[0]) * len(tiles[1])


@kernel(fastmath=STRICT, inline=True)
def short_row(rows: Any, attribute: Any) -> Any:
    """The first entry and the number of entries of an attribute without a padded row, in one number."""
    first, end = rows.begin[attribute - rows.dense], rows.begin[attribute - rows.dense + 1]
    return first << COUNT_BITS | end - first


@kernel(fastmath=STRICT, inline=True)
def short_entries(block_rows: Any, k: Any) -> Any:
    """The first entry and the number of entries of a short row."""
    row = number(block_rows.row, k)
    return row >> COUNT_BITS, row & COUNT


@kernel(fastmath=STRICT)
def find_rows(block: Any, rows: Any, width: Any, block_rows: Any) -> None:
    """Where the row of each attribute begins: padded rows from the front of a position's share, short ones behind."""
    base, at = block.offsets[0], 0
    if block.values.size == 0 and rows.begin.size == 1:
        for t in range(block_rows.turn.size):
            block_rows.begin[t], block_rows.turn[t] = block.offsets[t] - base, block.offsets[t + 1] - base
        at = block.offsets[block_rows.turn.size] - base
        for k in range(at):
            block_rows.row[k] = block.ids[base + k] * width
    elif block.values.size == 0:
        for t in range(block_rows.turn.size):
            block_rows.begin[t], back = at, block.offsets[t + 1] - base
            for k in range(block.offsets[t], block.offsets[t + 1]):
                attribute = block.ids[k]
                if attribute < rows.dense:
                    block_rows.row[at] = attribute * width
                    at += 1
                else:
                    back -= 1
                    block_rows.row[back] = short_row(rows, attribute)
            block_rows.turn[t], at = at, block.offsets[t + 1] - base
    else:
        for t in range(block_rows.turn.size):
            block_rows.begin[t] = at
            for dense in (True, False):
                for k in range(block.offsets[t], block.offsets[t + 1]):
                    attribute, value = block.ids[k], block.values[k]
                    if (attribute < rows.dense) == dense and value != 0.0:
                        block_rows.row[at] = attribute * width if dense else short_row(rows, attribute)
                        block_rows.value[at] = value
                        at += 1
                if dense:
                    block_rows.turn[t] = at
    block_rows.begin[block_rows.turn.size] = at


@kernel(fastmath=STRICT, inline=True)
def rows_between(block_rows: Any, low: Any, high: Any) -> Any:
    """The rows of positions low … high-1."""
    return BlockRows(block_rows.begin[low : high + 1], block_rows.turn[low:high], block_rows.row, block_rows.value)


@kernel(fastmath=STRICT, inline=True)
def prefetch_short_rows(block_rows: Any, rows: Any, t: Any, sparse: Any) -> None:
    """Those of position t, which are scattered over the memory."""
    for k in range(number(block_rows.turn, t), number(block_rows.begin, t + 1)):
        first, _ = short_entries(block_rows, k)
        prefetch(sparse, first)
        prefetch(rows.label, first)


@kernel(fastmath=CONTRACT)
def state_scores(block_rows: Any, rows: Any, weights: Any, blank: Any, out: Any) -> None:
    """out[t, j] = s_t(j); `blank` is the score of no attribute: 0 for a label, -inf for padding."""
    tile, columns, width = sizes(rows.tiles)
    plain = block_rows.value.size == 0
    for t in range(block_rows.turn.size):
        low, turn, high = number(block_rows.begin, t), number(block_rows.turn, t), number(block_rows.begin, t + 1)
        prefetch_short_rows(block_rows, rows, min(t + AHEAD, block_rows.turn.size - 1), weights.sparse)
        prefetch(block_rows.row, low + _ENTRIES_AHEAD)
        for c in range(0, width, columns):
            score = load_tile(blank, c, tile)
            if plain:
                for k in range(low, turn):
                    score = score + load_tile(weights.dense, number(block_rows.row, k) + c, tile)
            else:
                for k in range(low, turn):
                    row = load_tile(weights.dense, number(block_rows.row, k) + c, tile)
                    score = fma(splat(number(block_rows.value, k)), row, score)
            store(out, t * width + c, score)
        scores = place(out, t * width)
        for k in range(turn, high):
            first, count = short_entries(block_rows, k)
            value = 1.0 if plain else number(block_rows.value, k)
            for entry in range(first, first + count):
                label = number(rows.label, entry)
                set_number(scores, label, number(scores, label) + value * number(weights.sparse, entry))


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


@kernel(fastmath=CONTRACT)
def fold(counts: Any) -> None:
    """Add the recent counts of the frequent attributes to their second level.

    Many small terms that are added to one large number are all rounded at its last digit, and often in one direction;
    added in portions, they lose hardly anything.
    """
    for k in range(0, counts.hot.size, WIDTH):
        store(counts.hot, k, load(counts.hot, k) + load(counts.dense, k))
        store(counts.dense, k, splat(0.0))


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
def observe(block: Any, rows: Any, weights: Any, width: Any, previous: Any, forbidding: Any, counts: Any) -> Any:
    """Add what the block's own labels count to `counts`; `previous` is the label before the block.

    A sequence counts with its weight. Returns (the last label, the first position whose label is forbidden or -1);
    state weights are only looked at where some of them forbid. Positions without a label count nothing, and neither do
    the edges beside them.
    """
    forbidden = -1
    size = weights.transition.size
    plain, plain_edges, weighted = block.values.size == 0, block.edge_values.size == 0, block.weights.size > 0
    for t in range(block.labels.size):
        label = block.labels[t]
        weight = block.weights[t] if weighted else 1.0
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
            counts.transition[pair] += weight
            if weights.transition[pair] == -np.inf and forbidden < 0:
                forbidden = t
            if block.edge_offsets.size:
                for k in range(block.edge_offsets[t], block.edge_offsets[t + 1]):
                    value = 1.0 if plain_edges else block.edge_values[k]
                    slot = block.edge_ids[k] * size + pair
                    counts.edge[slot] += weight * value
                    if weights.edge[slot] == -np.inf and value != 0.0 and forbidden < 0:
                        forbidden = t
        previous = label
        if (t + 1) % PORTION == 0:
            fold(counts)
    return previous, forbidden
