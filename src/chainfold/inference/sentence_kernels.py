"""One sequence of items to the scores of its positions.

s_t(j) = Σ_a x_t(a) · W[a, j]      over the attributes a of item t that the model knows; see `kernels.scores`
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.core.slots import BlockRows, RowLayout, Slots
from chainfold.features.item_id_kernels import item_ids
from chainfold.kernels.scores import find_rows, state_scores
from chainfold.kernels.viterbi import trace, viterbi
from chainfold.system.jit import OK, STRICT, kernel

TOO_LARGE = 3
"""A score may overflow."""


class SequenceEntries(NamedTuple):
    """The attributes of a sequence, by the names that a block has for them."""

    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.float64]


@kernel(fastmath=STRICT)
def item_scores(
    text: Any,
    limits: Any,
    numbers: Any,
    ends: Any,
    size: Any,
    mask: Any,
    table: Any,
    rows: Any,
    weights: Any,
    blank: Any,
    most: Any,
    first: Any,
    last: Any,
) -> Any:
    """(status, scores): [T, width], of T items, the first arguments being those of `item_ids`.

    rows, weights: RowLayout and Slots as plain tuples; most: of attributes at a position times the size of their
    values, beyond which a score may overflow. first, last: labels that may not start or end a sequence; their scores
    are -inf there.
    """
    width = blank.size
    layout = RowLayout(rows[0], rows[1], rows[2], rows[3])
    slots = Slots(weights[0], weights[1], weights[2], weights[3], weights[4])
    offsets, ids, values = item_ids(text, limits, numbers, ends, size, mask, table)
    out = np.empty((size, width))
    widest, largest = np.int64(0), 0.0 if values.size else 1.0
    for t in range(size):
        widest = max(widest, offsets[t + 1] - offsets[t])
    for k in range(values.size):
        largest = max(largest, abs(values[k]))
    if not widest * largest < most:
        return TOO_LARGE, out
    block_rows = BlockRows(
        np.empty(size + 1, np.int64), np.empty(size, np.int64), np.empty(ids.size, np.int64), np.empty(values.size)
    )
    find_rows(SequenceEntries(offsets, ids, values), layout, width, block_rows)
    state_scores(block_rows, layout, slots, blank, out)
    for k in range(first.size):
        out[0, first[k]] = -np.inf
    for k in range(last.size):
        out[size - 1, last[k]] = -np.inf
    return OK, out


@kernel(fastmath=STRICT)
def best_labels(
    text: Any,
    limits: Any,
    numbers: Any,
    ends: Any,
    size: Any,
    mask: Any,
    table: Any,
    rows: Any,
    weights: Any,
    blank: Any,
    most: Any,
    first: Any,
    last: Any,
    edge: Any,
    marks: Any,
    back: Any,
    labels: Any,
) -> Any:
    """The best label of each item; returns the status.

    The first arguments are those of `item_scores`; edge: the scores of transitions; marks: starts and ends, whose ends
    are those of the sequence; back: [T, N], room for back-pointers.
    """
    status, scores = item_scores(
        text, limits, numbers, ends, size, mask, table, rows, weights, blank, most, first, last
    )
    if status != OK:
        return status
    delta, total, finals, best = np.zeros(blank.size), np.zeros(2), np.empty(1, np.int64), np.empty(1)
    starts, stops = marks
    status, _ = viterbi(starts, stops, scores, edge, delta, total, back, finals, best)
    if status == OK:
        trace(back, finals[0], labels)
    return status
