"""Entries of positions without those that have no id."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def without_gaps(
    begins: NDArray[np.int64], ids: NDArray[np.int32], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """The entries of positions, ids[begins[t] : begins[t + 1]] each, without those whose id is -1."""
    there = ids >= 0
    if there.all():
        return begins, ids, values
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(there)])[begins]
    return offsets, ids[there], values[there] if values.size else values
