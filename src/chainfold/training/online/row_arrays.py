"""Rows of a block as arrays on disk: which arrays there are, and a block of them again, once they are checked.

The file is untrusted; bounds are checked: of labels, of ids and of offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block, frozen, join_blocks
from chainfold.system.validate import LARGEST, Arrays, ascending, need, within
from chainfold.training.online.share import NOTHING

KINDS: dict[str, np.dtype[Any]] = {name: getattr(NOTHING, name).dtype for name in Block._fields[:5]}
"""The arrays that are kept of a block, and what they hold; edge attributes and weights are never in it."""


def arrays_of(*blocks: Block) -> dict[str, NDArray[Any]]:
    """What is kept of rows that follow one another."""
    block = join_blocks([NOTHING._replace(**{name: getattr(one, name) for name in KINDS}) for one in blocks])
    return {name: getattr(block, name) for name in KINDS}


def block_of(arrays: Mapping[str, NDArray[Any]], n_attributes: int, n_labels: int) -> Block:
    """The rows that were kept; raises unless they are some."""
    given = Arrays(arrays)
    found = {name: given.take(name, kind, None) for name, kind in KINDS.items()}
    given.check_empty()
    within("starts", found["starts"].view(np.uint8), 0, 1)
    block = NOTHING._replace(**{name: frozen(found[name], kind) for name, kind in KINDS.items()})
    size = block.labels.size
    need(block.starts.size == size and block.offsets.size == size + 1, "its rows are not all there")
    ascending("offsets", block.offsets, block.ids.size)
    need(block.values.size in (0, block.ids.size), "its values are not those of its attributes")
    within("labels", block.labels, 0, n_labels - 1)
    within("ids", block.ids, 0, n_attributes - 1)
    within("values", block.values, -LARGEST, LARGEST)
    return block
