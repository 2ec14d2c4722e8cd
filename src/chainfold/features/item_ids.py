"""A sequence of items to ids of a model, in one call and without columns: for what comes one sentence or row at a time.

It answers only where `readers.items` knows the types; all else takes the way of `for_model`, with the same numbers.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.builder import KnownNames
from chainfold.chain.strings import StringTable
from chainfold.chain.vocabulary import Vocabulary
from chainfold.features.attributes import Entries
from chainfold.features.encoder import known_names
from chainfold.features.item_id_kernels import item_ids
from chainfold.features.schema import Schema
from chainfold.features.template import every_column
from chainfold.readers.columns import ATTRIBUTES, EDGE
from chainfold.readers.item_kernels import FULL
from chainfold.readers.items import is_known, packed
from chainfold.system.jit import OK

_MOST = 1 << 20  # bytes of a packed sequence; longer ones are better read in stretches
_ROOM = 1024  # bytes of text, beside three for each byte of a sequence: names that come again take few bytes there


class ItemIds:
    """The numbers of a model whose attributes are those of items."""

    def __init__(self, mask: int, table: StringTable) -> None:
        self._mask, self._table = mask, table

    @classmethod
    def of(cls, vocabulary: Vocabulary | None) -> Self | None:
        """None where the model was made of something else."""
        if vocabulary is None or not is_known():
            return None
        template, items = Schema.of_vocabulary(vocabulary).template, every_column({ATTRIBUTES: "bag"})
        features = tuple(feature for feature in template.features if not (feature.edge and feature.columns == (EDGE,)))
        if (features, template.border) != (items.features, items.border):
            return None
        names, _ = known_names(vocabulary)
        return cls(-1, names.table) if isinstance(names, KnownNames) else cls(len(names) - 1, StringTable())

    def packed(self, items: Any) -> NDArray[np.uint8] | None:
        """A list or tuple of items for `item_ids`; None where it has to be read in another way."""
        piece = packed(items) if type(items) in (list, tuple) and items else None
        return None if piece is None or len(piece) > _MOST else np.frombuffer(piece, np.uint8)

    def read(self, kernel: Any, data: NDArray[np.uint8], *more: Any) -> tuple[Any, ...]:
        """What a kernel that begins as `item_ids` does gives for packed items."""
        room = 3 * data.size + _ROOM
        while (given := kernel(data, room, self._mask, self._table.arrays, *more))[0] == FULL:
            room *= 4
        return tuple(given)

    def entries(self, items: Any) -> Entries | None:
        """The attributes of items that the model knows; None where they have to be read in another way."""
        data = self.packed(items)
        if data is None:
            return None
        status, *entries = self.read(item_ids, data)
        return Entries(*entries) if status == OK else None
