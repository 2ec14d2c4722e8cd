"""Items to ids of a model whose attributes are those of items.

id(text) = its code among the model's names, or -1: left out;  or the lowest bits of its hash
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.chain.string_kernels import find_strings, hash_strings
from chainfold.readers.item_kernels import container_at, flatten
from chainfold.system.jit import OK, STRICT, kernel

_BYTES = 8  # of text that an attribute has, where there is just enough room


@kernel(fastmath=STRICT)
def item_ids(data: Any, room: Any, mask: Any, table: Any) -> Any:
    """The attributes that a model knows, of one packed list of items.

    data: the packed list; room: bytes of text; mask: of hashes, or -1 where the table of names is to be used. Returns
    (status, offsets, ids, values), the values empty if all are one.
    """
    ends = np.full(1, data.size, np.int64)
    items = max(container_at(data, np.int64(0))[0], 0)
    most = room // _BYTES
    text, offsets, values = np.empty(room, np.uint8), np.empty(most + 1, np.int64), np.empty(most)
    begins = np.zeros(items + 1, np.int64)
    offsets[0] = 0
    status, _, _ = flatten(data, ends, 0, 0, np.empty(data.size // 2 + 1, np.int32), text, offsets, values, begins[1:])
    count = begins[items] if status == OK else np.int64(0)
    ids = np.empty(count, np.int32)
    if mask >= 0:
        hashes = np.empty(count, np.uint64)
        hash_strings(text, offsets[:count], offsets[1 : count + 1], hashes)
        for k in range(count):
            ids[k] = np.int64(hashes[k] & np.uint64(mask))
    else:
        find_strings(text, offsets[:count], offsets[1 : count + 1], table, ids)
    kept, low, valued = 0, np.int64(0), False
    for row in range(items if status == OK else 0):
        high = begins[row + 1]
        for k in range(low, high):
            ids[kept], values[kept] = ids[k], values[k]
            kept += ids[k] >= 0
        begins[row + 1], low = kept, high
    for k in range(kept):
        valued |= values[k] != 1.0
    return status, begins, ids[:kept], values[: kept if valued else 0]
