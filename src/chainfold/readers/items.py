"""Lists of items to the texts and values of their attributes, without a step of Python for each.

A kernel reads dicts, texts and numbers where they are in memory (`jit.item_kernels`). What it cannot read, which is all
but the built-in types themselves, is left to `sequences`, which defines what attributes items have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.jit.decorator import OK
from chainfold.jit.item_kernels import FULL, TYPES, read_items

_TEXT = 16  # bytes of text for which there is room for each attribute


class ItemTexts(NamedTuple):
    """The attributes of consecutive items."""

    text: NDArray[np.uint8]  # attribute k is text[offsets[k] : offsets[k + 1]]
    offsets: NDArray[np.int64]
    values: NDArray[np.float64]
    ends: NDArray[np.int64]  # [items]  the attributes up to each item

    def part(self, rows: int) -> ItemTexts:
        """The first items alone."""
        entries = int(self.ends[rows - 1]) if rows else 0
        return ItemTexts(self.text, self.offsets[: entries + 1], self.values[:entries], self.ends[:rows])


class ItemReader:
    """Reads the items of lists and tuples, as many at a time as it has room for.

    What it gives is in arrays that it uses again. Requires `jit.objects.are_readable`.
    """

    def __init__(self, entries: int) -> None:
        """entries: attributes for which there is room; there is more for an item that has more."""
        self._make_room(entries)
        self.begin(())
        self._one = np.empty((2, 1), np.int64)

    def _make_room(self, entries: int) -> None:
        self.entries = entries
        ends = np.empty(entries, np.int64)
        self._room = ItemTexts(
            np.empty(_TEXT * entries, np.uint8), np.empty(entries + 1, np.int64), np.empty(entries), ends
        )

    def begin(self, sequences: Sequence[Any]) -> None:
        """The lists and tuples to read next."""
        self._sequences = sequences  # held until all is read
        self._addresses = np.array([id(items) for items in sequences], np.int64)
        self._sizes = np.array([len(items) for items in sequences], np.int64)
        self.place = (0, 0)  # of the next item: number of its sequence, number in it

    def read(self) -> ItemTexts:
        """The next items; none where the next one has other types, or there are no more."""
        while True:
            status, sequence, item, rows = read_items(self._addresses, self._sizes, *self.place, TYPES, *self._room)
            if rows or status != FULL:
                break
            self._make_room(2 * self.entries)
        self.place = sequence, item
        return self._room.part(rows)

    def skip(self) -> tuple[int, int]:
        """Pass over the next item; the number of its sequence, and its number in it."""
        sequence, item = before = self.place
        last = item + 1 == self._sizes[sequence]
        self.place = (sequence + 1, 0) if last else (sequence, item + 1)
        return before

    def read_whole(self, items: Any) -> ItemTexts | None:
        """All items of one list or tuple, and what other items were read before; None where it has other types."""
        address, size = self._one
        address[0], size[0] = id(items), len(items)
        while (status := read_items(address, size, 0, 0, TYPES, *self._room)[0]) == FULL:
            self._make_room(2 * self.entries)
        return self._room if status == OK else None
