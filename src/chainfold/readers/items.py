"""Lists of items to the texts and values of their attributes, without a step of Python for each.

A kernel reads dicts, texts and numbers where they are in memory (`item_kernels`). What it cannot read, which is all but
the built-in types themselves, is left to `sequences`, which defines what attributes items have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.readers.item_kernels import FULL, TYPES, read_items
from chainfold.system.jit import OK

_TEXT = 16  # bytes of text for which there is room for each attribute


class ItemTexts(NamedTuple):
    """The attributes of consecutive items."""

    text: NDArray[np.uint8]  # attribute k is text[offsets[k] : offsets[k + 1]]
    offsets: NDArray[np.int64]
    values: NDArray[np.float64]
    ends: NDArray[np.int64]  # [items]  the attributes up to each item


class ItemReader:
    """Reads the items of lists and tuples, as many at a time as it has room for.

    What it gives is in arrays that it uses again. Requires `system.objects.are_readable`.
    """

    def __init__(self, entries: int) -> None:
        """entries: attributes for which there is room; there is more for an item that has more."""
        self._make_room(entries)
        self.begin(())

    def _make_room(self, entries: int) -> None:
        self.entries = entries
        self._text, self._offsets = np.empty(_TEXT * entries, np.uint8), np.empty(entries + 1, np.int64)
        self._values, self._ends = np.empty(entries), np.empty(entries, np.int64)

    def begin(self, sequences: Sequence[Any]) -> None:
        """The lists and tuples to read next."""
        self._sequences = sequences  # held until all is read
        self._addresses = np.array([id(items) for items in sequences], np.int64)
        self._lengths = np.array([len(items) for items in sequences], np.int64)
        self.place = (0, 0)  # of the next item: number of its sequence, number in it

    def read(self) -> ItemTexts:
        """The next items; none where the next one has other types, or there are no more."""
        while True:
            status, sequence, item, rows = self._read()
            if rows or status != FULL:
                break
            self._make_room(2 * self.entries)
        self.place = sequence, item
        return self._texts(rows)

    def read_whole(self, items: Any) -> ItemTexts | None:
        """All items of one list or tuple; None where it has other types."""
        self.begin((items,))
        while (found := self._read())[0] == FULL:
            self._make_room(2 * self.entries)
        self._sequences = ()
        return self._texts(found[3]) if found[0] == OK else None

    def _read(self) -> Any:
        to = self._text, self._offsets, self._values, self._ends
        return read_items(self._addresses, self._lengths, *self.place, TYPES, *to)

    def _texts(self, rows: int) -> ItemTexts:
        entries = int(self._ends[rows - 1]) if rows else 0
        return ItemTexts(self._text, self._offsets[: entries + 1], self._values[:entries], self._ends[:rows])

    def skip(self) -> tuple[int, int]:
        """Pass over the next item; the number of its sequence, and its number in it."""
        sequence, item = before = self.place
        last = item + 1 == self._lengths[sequence]
        self.place = (sequence + 1, 0) if last else (sequence, item + 1)
        return before
