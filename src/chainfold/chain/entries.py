"""Entries of positions without those that have no id."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.entry_kernels import compact, present


def without_gaps(
    begins: NDArray[np.int64], ids: NDArray[np.int32], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """The same entries without those whose id is -1."""
    offsets = np.empty_like(begins)
    present(ids, begins, offsets)
    if offsets[-1] == ids.size:
        return begins, ids, values
    new_ids = np.empty(int(offsets[-1]), np.int32)
    new_values = np.empty(new_ids.size if values.size else 0)
    compact(ids, values, new_ids, new_values)
    return offsets, new_ids, new_values
