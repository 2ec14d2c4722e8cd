"""Spill to disk: unnamed temporary files, which the operating system removes with the process.

SpillFile     numbers of one type: appended, then read from the beginning, from any place, or back from the end
ArrayStore    sets of arrays, in memory up to a limit and then in a `SpillFile`
"""

from __future__ import annotations

import math
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from chainfold.errors import BadFile
from chainfold.system.files import temporary_file_errors, temporary_folder

Arrays = dict[str, NDArray[Any]]


class SpillFile:
    """Numbers of one type in an unnamed temporary file.

    dtype     type of the numbers
    folder    where the file lies; TMPDIR or the system's default unless given

    Failures of the disk raise `BadFile`, which names the folder.
    """

    def __init__(self, dtype: DTypeLike = np.uint8, folder: Path | None = None) -> None:
        self.dtype, self.folder = np.dtype(dtype), folder or temporary_folder()
        self.size = 0  # numbers appended
        with temporary_file_errors(self.folder):
            self.file: IO[bytes] = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115  (`close` closes it)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with suppress(OSError):  # data that a full disk has refused is not needed any more
            self.file.close()

    def append(self, numbers: NDArray[Any]) -> None:
        """Write numbers at the current place."""
        with temporary_file_errors(self.folder):
            self.file.write(np.ascontiguousarray(numbers, self.dtype).data)
        self.size += numbers.size

    def seek(self, place: int) -> None:
        """Move to the number with this index."""
        with temporary_file_errors(self.folder):
            self.file.seek(place * self.dtype.itemsize)

    def read(self, count: int) -> NDArray[Any]:
        """The next numbers."""
        numbers = np.empty(count, self.dtype)
        with temporary_file_errors(self.folder):
            read: int = self.file.readinto(numbers.view(np.uint8))  # type: ignore[attr-defined]
        if read != numbers.nbytes:
            raise BadFile(self.folder, "temporary data could not be read back.")
        return numbers

    def read_back(self, count: int) -> NDArray[Any]:
        """The numbers before the current place, which moves before them."""
        with temporary_file_errors(self.folder):
            begin = self.file.seek(-count * self.dtype.itemsize, 1)
        numbers = self.read(count)
        with temporary_file_errors(self.folder):
            self.file.seek(begin)
        return numbers


class StoredArrays(NamedTuple):
    """Arrays in memory, or their place and shapes in the file."""

    arrays: Arrays
    size: int  # bytes
    place: int | None = None
    shapes: tuple[tuple[str, Any, tuple[int, ...]], ...] = ()


class ArrayStore:
    """Arrays in memory up to `memory` bytes, then in an unnamed temporary file."""

    def __init__(self, memory: int) -> None:
        self._memory = memory  # bytes left
        self._folder = temporary_folder()
        self._file: SpillFile | None = None
        self._end, self._stored = 0, 0  # of the file: its size, and how many entries are in it
        self._free: dict[int, list[int]] = {}  # places in the file that are free again, by size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, arrays: Arrays) -> StoredArrays:
        size = sum(array.nbytes for array in arrays.values())
        if size <= self._memory:
            self._memory -= size
            return StoredArrays(arrays, size)
        if self._file is None:
            self._file = SpillFile(folder=self._folder)
        free = self._free.get(size)
        place = free.pop() if free else self._end
        self._end = max(self._end, place + size)
        self._file.seek(place)
        for array in arrays.values():
            self._file.append(array.reshape(-1).view(np.uint8))
        self._stored += 1
        shapes = tuple((name, array.dtype, array.shape) for name, array in arrays.items())
        return StoredArrays({}, size, place, shapes)

    def get(self, stored: StoredArrays) -> Arrays:
        if stored.place is None:
            return stored.arrays
        assert self._file is not None, "arrays were written to it"
        self._file.seek(stored.place)
        return {name: self._read(dtype, shape) for name, dtype, shape in stored.shapes}

    def _read(self, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        assert self._file is not None, "arrays were written to it"
        array: NDArray[Any] = self._file.read(math.prod(shape) * dtype.itemsize).view(dtype)
        return array.reshape(shape)

    def drop(self, stored: StoredArrays) -> None:
        """Free the memory or the place in the file."""
        if stored.place is None:
            self._memory += stored.size
            return
        self._free.setdefault(stored.size, []).append(stored.place)
        self._stored -= 1
        if self._stored == 0:
            self._end, self._free = 0, {}
