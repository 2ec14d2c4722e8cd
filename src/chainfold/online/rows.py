"""Rows of a block as arrays on disk: which arrays there are, and a block of them again, once they are checked.

Whoever wrote the file may have meant ill: no label, id or offset goes on from here that is not within its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.data.chain import Block, frozen
from chainfold.data.store import joined
from chainfold.errors import BadChain
from chainfold.online.window import NOTHING

KINDS: dict[str, np.dtype[Any]] = {name: getattr(NOTHING, name).dtype for name in Block._fields[:5]}
"""The arrays that are kept of a block, and what they hold; edge attributes and weights are never in it."""


def arrays_of(*blocks: Block) -> dict[str, NDArray[Any]]:
    """What is kept of rows that follow one another."""
    block = joined([NOTHING._replace(**{name: getattr(one, name) for name in KINDS}) for one in blocks])
    return {name: getattr(block, name) for name in KINDS}


def block_of(arrays: Mapping[str, NDArray[Any]], n_attributes: int, n_labels: int) -> Block:
    """The rows that were kept; raises `BadChain` unless they are some."""
    for name, kind in KINDS.items():
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            raise BadChain(f"{name} are not as chainfold writes them.")
    labels, starts, offsets, ids, values = (arrays[name] for name in KINDS)
    bounds = [
        ("starts", starts.size == labels.size and (starts.view(np.uint8) <= 1).all()),
        ("labels", not labels.size or (labels.min() >= 0 and labels.max() < n_labels)),
        ("offsets", offsets.size == labels.size + 1 and offsets[0] == 0 and offsets[-1] == ids.size),
        ("offsets", (offsets[1:] >= offsets[:-1]).all()),
        ("ids", not ids.size or (ids.min() >= 0 and ids.max() < n_attributes)),
        ("values", values.size in (0, ids.size) and np.isfinite(values).all()),
    ]
    for name, good in bounds:
        if not good:
            raise BadChain(f"{name} are out of bounds.")
    return NOTHING._replace(**{name: frozen(arrays[name], kind) for name, kind in KINDS.items()})
