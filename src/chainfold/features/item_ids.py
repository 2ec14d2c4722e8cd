"""Items to ids of a model without columns; one sequence at a time, or one row, in one call.

The call answers only where `readers.items` can read the types; else items take the way of `for_model`, with the same
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np

from chainfold.chain.block import NO_LABEL, KnownBlock
from chainfold.chain.builder import KnownNames
from chainfold.chain.strings import StringTable
from chainfold.chain.vocabulary import Vocabulary
from chainfold.features.attributes import Entries
from chainfold.features.encoder import known_names
from chainfold.features.schema import Schema
from chainfold.features.spool import frozen_block
from chainfold.features.template import every_column
from chainfold.jit.item_id_kernels import item_ids
from chainfold.jit.objects import are_readable
from chainfold.readers.columns import ATTRIBUTES, EDGE
from chainfold.readers.items import ItemReader
from chainfold.readers.sequences import parts_of

_MOST_ITEMS = 1 << 16  # of a sequence; longer ones are better read in stretches
_ENTRIES = 1024  # attributes for which there is room at first
_MOST_KEPT = 1 << 16  # attributes whose room is kept for the next sequence


class ItemIds:
    """The numbers of a model whose attributes are those of items."""

    def __init__(self, mask: int, table: StringTable) -> None:
        self._names = mask, tuple(table.arrays)  # calls take a plain tuple sooner than a named one
        self._readers: list[ItemReader] = []  # those that are not in use, by any thread

    @classmethod
    def of(cls, vocabulary: Vocabulary | None) -> Self | None:
        """None where the model was made of something else."""
        if vocabulary is None or not are_readable():
            return None
        template, items = Schema.of_vocabulary(vocabulary).template, every_column({ATTRIBUTES: "bag"})
        features = tuple(feature for feature in template.features if not (feature.edge and feature.columns == (EDGE,)))
        if (features, template.border) != (items.features, items.border):
            return None
        names, _ = known_names(vocabulary)
        return cls(-1, names.table) if isinstance(names, KnownNames) else cls(len(names) - 1, StringTable())

    def blocks(self, sequences: Iterable[Any]) -> Iterator[KnownBlock]:
        """Sequences of items without labels. Raises `BadChain` for what is no item."""
        for part in parts_of(sequences, None):
            offsets, ids, values = item_ids(*part.texts, part.starts.size, *self._names)
            block = frozen_block(np.full(part.starts.size, NO_LABEL), part.starts, offsets, ids, values)
            yield KnownBlock(block, block.labels)

    def entries(self, items: Any) -> Entries | None:
        """The attributes of items that the model knows; None where they have to be read in another way."""
        if type(items) not in (list, tuple) or not 0 < len(items) <= _MOST_ITEMS:
            return None
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = ItemReader(_ENTRIES)
        items = tuple(items)  # another thread may change a list
        texts = reader.read_whole(items)
        found = None if texts is None else Entries(*item_ids(*texts, len(items), *self._names))
        if reader.entries <= _MOST_KEPT:
            self._readers.append(reader)
        return found
