"""Entries of positions without those that have no id."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def without_gaps(
    begins: NDArray[np.int64], ids: NDArray[np.int32], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """The entries of positions, ids[begins[t] : begins[t + 1]] each, without those whose id is -1."""
    gaps = np.flatnonzero(ids < 0)
    if not gaps.size:
        return begins, ids, values
    offsets, there = begins - np.searchsorted(gaps, begins), ids >= 0
    return offsets, ids[there], values[there] if values.size else values
