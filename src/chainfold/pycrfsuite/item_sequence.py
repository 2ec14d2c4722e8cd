"""The items of a sequence as attributes with values, as the readers of sequences make them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from chainfold.readers.columns import ATTRIBUTES, VALUES_SUFFIX
from chainfold.readers.sequences import stretches_of


class ItemSequence:
    """The items of one sequence, checked, as `Trainer` and `Tagger` take them.

    sequence   an iterable of items; an item is a dict of strings, numbers, bools and nested collections, or a
               collection of strings

    Raises `BadChain` where an item is of another type.

    >>> ItemSequence([{"word": "the", "form": {"upper": False}}, ["end"]]).items()
    [{'word:the': 1.0, 'form:upper': 0.0}, {'end': 1.0}]
    """

    def __init__(self, sequence: Iterable[Any]) -> None:
        self._given = list(sequence) if not isinstance(sequence, str) else sequence
        self._items = [dict(attributes) for attributes in _attributes(self._given)]

    def items(self) -> list[dict[str, float]]:
        """The attributes of each item with their values."""
        return [dict(item) for item in self._items]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def _attributes(items: Any) -> Iterator[Iterator[tuple[str, float]]]:
    """The attributes of each item, with their values."""
    for stretch in stretches_of([items], None):
        names = stretch.batch.column(ATTRIBUTES)
        spelled = names.values.to_pylist()
        values = np.ones(len(spelled))
        if ATTRIBUTES + VALUES_SUFFIX in stretch.batch.schema.names:
            values = stretch.batch.column(ATTRIBUTES + VALUES_SUFFIX).values.to_numpy()
        ends = names.offsets.to_pylist()
        for low, high in pairwise(ends):
            yield zip(spelled[low:high], values[low:high].tolist(), strict=True)
