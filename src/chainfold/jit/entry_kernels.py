"""Entries of positions: the attributes ids[offsets[t] : offsets[t + 1]] of each position t.

How often each attribute occurs, and with which labels, is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.jit.decorator import STRICT, kernel

_WORD, _BIT = 6, 63  # a label's word of marks is label >> 6, its bit label & 63


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
