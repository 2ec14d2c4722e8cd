"""Tables of a flatbuffer, in which Arrow's messages and footers are: as much as is needed to look at sizes.

A table begins with the distance back to the list of where its fields are. Anything else raises `struct.error`.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

PLACE = np.dtype([("offset", "<i8"), ("metadata", "<i4"), ("padding", "<i4"), ("body", "<i8")])
"""Where a message is in an Arrow file, as its footer says."""

DICTIONARIES, BATCHES = 2, 3  # fields of a footer, and kinds of messages


class FlatTable:
    """A table; its fields by number."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - self._number("<i", at)
        self._size = self._number("<H", self._fields)

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        return cls(data, struct.unpack_from("<I", data)[0])

    def number(self, field: int, kind: str) -> int:
        """A number, zero where it is not given."""
        at = self._place(field)
        return self._number(kind, at) if at else 0

    def table(self, field: int) -> FlatTable | None:
        at = self._place(field)
        return FlatTable(self._data, at + self._number("<I", at)) if at else None

    def records(self, field: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """A list of records, empty where it is not given."""
        at = self._place(field)
        if not at:
            return np.empty(0, kind)
        at += self._number("<I", at)
        count = self._number("<I", at)
        if count > (len(self._data) - at - 4) // kind.itemsize:
            raise struct.error("a list that is cut short")
        return np.frombuffer(self._data, kind, count, at + 4)

    def _place(self, field: int) -> int:
        slot = 4 + 2 * field
        distance = self._number("<H", self._fields + slot) if slot < self._size else 0
        return self._at + distance if distance else 0

    def _number(self, kind: str, at: int) -> int:
        if at < 0:
            raise struct.error("a place before the beginning")
        number: int = struct.unpack_from(kind, self._data, at)[0]
        return number
