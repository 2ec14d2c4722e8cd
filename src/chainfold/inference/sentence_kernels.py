"""One sequence of items to the scores of its positions.

s_t(j) = Σ_a x_t(a) · W[a, j]      over the attributes a of item t that the model knows; see `kernels.scores`
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.features.item_id_kernels import item_ids
from chainfold.kernels.scores import find_rows, state_scores
from chainfold.kernels.slots import BlockRows
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
    mask: Any,
    table: Any,
    rows: Any,
    weights: Any,
    blank: Any,
    most: Any,
    first: Any,
    last: Any,
) -> Any:
    """(status, scores): [T, width], of T items, of which `item_ids` says what it takes.

    most: of attributes at a position times the size of their values, beyond which a score may overflow. first, last:
    labels that may not start or end a sequence; their scores are -inf there.
    """
    width = blank.size
    offsets, ids, values = item_ids(text, limits, numbers, ends, mask, table)
    size = ends.size
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
    find_rows(SequenceEntries(offsets, ids, values), rows, width, block_rows)
    state_scores(block_rows, rows, weights, blank, out)
    for k in range(first.size):
        out[0, first[k]] = -np.inf
    for k in range(last.size):
        out[size - 1, last[k]] = -np.inf
    return OK, out
