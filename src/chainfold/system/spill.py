"""Arrays that wait: in memory as far as there is room, then in a file without a name."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import BadFile
from chainfold.system.files import working_file
from chainfold.system.temporary import temporary_folder

Arrays = dict[str, NDArray[Any]]


class Kept(NamedTuple):
    """Arrays in memory, or where in the file they are."""

    arrays: Arrays
    size: int
    place: int | None = None
    shapes: tuple[tuple[str, Any, tuple[int, ...]], ...] = ()


class Shelf:
    """Arrays that are pending: in memory as far as there is room, then in a file without a name."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._folder = temporary_folder()
        self._file: IO[bytes] | None = None
        self._end, self._filed = 0, 0  # of the file; how many things are in it
        self._free: dict[int, list[int]] = {}  # places that are free again, by size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def put(self, arrays: Arrays) -> Kept:
        size = sum(array.nbytes for array in arrays.values())
        if size <= self._room:
            self._room -= size
            return Kept(arrays, size)
        with working_file(self._folder):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  (the shelf closes it)
            free = self._free.get(size)
            place = free.pop() if free else self._end
            self._end = max(self._end, place + size)
            self._file.seek(place)
            for array in arrays.values():
                self._file.write(array.data)
        self._filed += 1
        shapes = tuple((name, array.dtype, array.shape) for name, array in arrays.items())
        return Kept({}, size, place, shapes)

    def get(self, kept: Kept) -> Arrays:
        if kept.place is None:
            return kept.arrays
        assert self._file is not None, "something was written to it"
        arrays = {name: np.empty(shape, dtype) for name, dtype, shape in kept.shapes}
        with working_file(self._folder):
            self._file.seek(kept.place)
            read = sum(self._file.readinto(array.data.cast("B")) for array in arrays.values())  # type: ignore[attr-defined]
        if read != kept.size:
            raise BadFile(self._folder, "what was put aside there could not be read back.")
        return arrays

    def drop(self, kept: Kept) -> None:
        """Its room is free again."""
        if kept.place is None:
            self._room += kept.size
            return
        self._free.setdefault(kept.size, []).append(kept.place)
        self._filed -= 1
        if self._filed == 0:
            self._end, self._free = 0, {}
