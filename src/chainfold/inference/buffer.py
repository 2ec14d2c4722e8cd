"""A queue of rows in columns: rows are added at the end and dropped at the beginning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]

_LEAST_ROOM = 64


class Buffer:
    """Columns of rows, added at the end and dropped at the beginning; the memory is used again."""

    def __init__(self, like: Columns) -> None:
        """like: an array for each column, whose rows have the shape and type."""
        self._room = {name: np.empty((0, *array.shape[1:]), array.dtype) for name, array in like.items()}
        self._begin = self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The rows of a column, a view that is valid until more are added."""
        return self._room[name][self._begin : self._end]

    def add(self, rows: Columns) -> None:
        """Add rows at the end, an array for each column."""
        count = len(next(iter(rows.values())))
        self._make_room(count)
        for name, values in rows.items():
            self._room[name][self._end : self._end + count] = values
        self._end += count

    def drop(self, count: int) -> None:
        """Drop the first rows."""
        self._begin += count
        if self._begin == self._end:
            self._begin = self._end = 0

    def recast(self, columns: Columns) -> None:
        """Other values for the rows of some columns, which may be of another shape."""
        for name, values in columns.items():
            room = np.empty((len(self._room[name]), *values.shape[1:]), values.dtype)
            room[self._begin : self._end] = values
            self._room[name] = room

    @property
    def arrays(self) -> Columns:
        """All rows, by column."""
        return {name: self[name] for name in self._room}

    def _make_room(self, count: int) -> None:
        """Make room for more rows: move the others to the beginning, of larger arrays where these are too small."""
        size, room = len(self), len(next(iter(self._room.values())))
        if self._end + count <= room:
            return
        larger = room
        while size + count > larger // 2:  # half of it stays free, so that moving costs little for each row
            larger = max(2 * larger, _LEAST_ROOM)
        for name, array in self._room.items():
            moved = array if larger == room else np.empty((larger, *array.shape[1:]), array.dtype)
            moved[:size] = array[self._begin : self._end]
            self._room[name] = moved
        self._begin, self._end = 0, size
