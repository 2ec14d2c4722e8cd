"""Items to ids of a model whose attributes are those of items.

id(text) = its code among the model's names, or -1: left out;  or the lowest bits of its hash
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.jit.decorator import STRICT, kernel
from chainfold.jit.string_kernels import StringArrays, find_strings, hash_strings


@kernel(fastmath=STRICT)
def item_ids(text: Any, limits: Any, numbers: Any, ends: Any, rows: Any, mask: Any, table: Any) -> Any:
    """The attributes that a model knows, of the first items of those that `item_kernels.read_items` has read.

    rows: how many items; mask: of hashes, or -1 where the table of names is to be used, a plain tuple of its arrays.
    Returns (offsets, ids, values), the values empty if all are one.
    """
    count = ends[rows - 1] if rows else np.int64(0)
    ids, offsets, values = np.empty(count, np.int32), np.zeros(rows + 1, np.int64), np.empty(count)
    if mask >= 0:
        hashes = np.empty(count, np.uint64)
        hash_strings(text, limits[:count], limits[1 : count + 1], hashes)
        for k in range(count):
            ids[k] = np.int64(hashes[k] & np.uint64(mask))
    else:
        names = StringArrays(table[0], table[1], table[2], table[3], table[4])
        find_strings(text, limits[:count], limits[1 : count + 1], names, ids)
    kept, low, valued = 0, np.int64(0), False
    for row in range(rows):
        for k in range(low, ends[row]):
            ids[kept], values[kept] = ids[k], numbers[k]
            kept += ids[k] >= 0
        offsets[row + 1], low = kept, ends[row]
    for k in range(kept):
        valued |= values[k] != 1.0
    return offsets, ids[:kept], values[: kept if valued else 0]
