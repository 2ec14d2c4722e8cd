"""Items to ids of a model whose attributes are those of items.

id(text) = its code among the model's names, or -1: left out;  or the lowest bits of its hash
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.chain.string_kernels import find_strings, hash_strings
from chainfold.system.jit import STRICT, kernel


@kernel(fastmath=STRICT)
def item_ids(text: Any, limits: Any, numbers: Any, ends: Any, mask: Any, table: Any) -> Any:
    """The attributes that a model knows, of items whose attributes are text[limits[k] : limits[k + 1]] with numbers[k].

    ends: [items], the attributes up to each; mask: of hashes, or -1 where the table of names is to be used. Returns
    (offsets, ids, values), the values empty if all are one.
    """
    count = numbers.size
    ids, offsets, values = np.empty(count, np.int32), np.zeros(ends.size + 1, np.int64), np.empty(count)
    if mask >= 0:
        hashes = np.empty(count, np.uint64)
        hash_strings(text, limits[:count], limits[1 : count + 1], hashes)
        for k in range(count):
            ids[k] = np.int64(hashes[k] & np.uint64(mask))
    else:
        find_strings(text, limits[:count], limits[1 : count + 1], table, ids)
    kept, low, valued = 0, np.int64(0), False
    for row in range(ends.size):
        for k in range(low, ends[row]):
            ids[kept], values[kept] = ids[k], numbers[k]
            kept += ids[k] >= 0
        offsets[row + 1], low = kept, ends[row]
    for k in range(kept):
        valued |= values[k] != 1.0
    return offsets, ids[:kept], values[: kept if valued else 0]
