"""Entries of positions: the attributes ids[offsets[t] : offsets[t + 1]] of each position t.

Entries without an id are removed; how often each attribute occurs, and with which labels, is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.system.jit import STRICT, kernel

_WORD, _BIT = 6, 63  # a label's word of marks is label >> 6, its bit label & 63


@kernel(fastmath=STRICT)
def present(ids: Any, begins: Any, offsets: Any) -> None:
    """offsets[t + 1] - offsets[t] = how many entries of row t, which are ids[begins[t] : begins[t + 1]], are not -1."""
    offsets[0] = 0
    for t in range(offsets.size - 1):
        count = 0
        for k in range(begins[t], begins[t + 1]):
            if ids[k] >= 0:
                count += 1
        offsets[t + 1] = offsets[t] + count


@kernel(fastmath=STRICT)
def compact(ids: Any, values: Any, new_ids: Any, new_values: Any) -> None:
    """Entries without those whose id is -1."""
    count = 0
    for k in range(ids.size):
        if ids[k] >= 0:
            new_ids[count] = ids[k]
            if values.size:
                new_values[count] = values[k]
            count += 1


@kernel(fastmath=STRICT)
def census(labels: Any, offsets: Any, ids: Any, words: Any, counts: Any, marks: Any) -> None:
    """counts[a] += 1 for each entry a, and its mark for the label of its position is set."""
    one = np.uint64(1)
    for t in range(labels.size):
        label = labels[t]
        for k in range(offsets[t], offsets[t + 1]):
            counts[ids[k]] += 1
            if label >= 0:
                marks[ids[k] * words + (label >> _WORD)] |= one << np.uint64(label & _BIT)
