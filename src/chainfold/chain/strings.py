"""Tables that give codes to strings and to pairs, and grow as they need to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.block import frozen
from chainfold.jit.string_kernels import (
    PairArrays,
    StringArrays,
    find_strings,
    hash_pairs,
    hash_strings,
    intern_pairs,
    intern_strings,
    place,
)

_LEAST, _LARGE = 1024, 1 << 18


def _larger(size: int) -> int:
    """A small table grows fourfold, as entering everything anew costs most of the time; a large one twofold."""
    return 4 * size if size < _LARGE else 2 * size


def _capacity(count: int) -> int:
    """Codes that a table of `count` strings has room for: a power of two."""
    return max(_LEAST, 1 << (count - 1).bit_length())


class StringTable:
    """Strings with codes 0, 1, 2 … in order of first appearance, kept as UTF-8 in one run of bytes."""

    def __init__(self) -> None:
        self.arrays = StringArrays(
            np.empty(16 * _LEAST, np.uint8),
            np.zeros(_LEAST + 1, np.int64),
            np.empty(_LEAST, np.uint64),
            np.full(2 * _LEAST, -1, np.int32),
            np.zeros(1, np.int64),
        )

    @classmethod
    def of(cls, strings: Any) -> StringTable:
        """A table of the strings of an Arrow array, all different and without nulls: entered at once.

        The table shares the memory of the array, which must not change.
        """
        blob, limits = _limits_of(strings)
        begins, ends = limits[:-1], limits[1:]
        table = cls.__new__(cls)
        table.arrays = StringArrays(
            _writable(blob[: limits[-1]]),  # without room: what is added goes to a copy
            _writable(limits),
            hashes(blob, begins, ends),
            np.full(2 * _capacity(begins.size), -1, np.int32),
            np.array([begins.size]),
        )
        place(table.arrays.hashes, begins.size, table.arrays.slots)
        return table

    def __len__(self) -> int:
        return int(self.arrays.used[0])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def codes(self, buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        """The codes of the strings buffer[begins[i] : ends[i]]; new strings get new codes."""
        out = np.empty(begins.size, np.int32)
        buffer, begins, ends = frozen(buffer, np.uint8), frozen(begins, np.int64), frozen(ends, np.int64)
        done = 0
        while (done := intern_strings(buffer, begins, ends, done, self.arrays, out)) < begins.size:
            self._grow(int(ends[done] - begins[done]))
        return out

    def found(self, buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        """The codes of those strings that have one, -1 for the others."""
        out = np.empty(begins.size, np.int32)
        buffer, begins, ends = frozen(buffer, np.uint8), frozen(begins, np.int64), frozen(ends, np.int64)
        find_strings(buffer, begins, ends, self.arrays, out)
        return out

    def codes_of(self, strings: Any) -> NDArray[np.int32]:
        """The codes of an Arrow array of strings without nulls."""
        return self.codes(*spans(strings))

    def code(self, text: str) -> int:
        """The code of one string."""
        data = np.frombuffer(text.encode(), np.uint8)
        return int(self.codes(data, np.zeros(1, np.int64), np.array([data.size]))[0])

    def strings(self, first: int = 0) -> Any:
        """The strings from code `first` on, as an Arrow array; a copy, so that it stays when the table grows."""
        ends = self.arrays.ends[first : len(self) + 1]
        blob = self.arrays.blob[ends[0] : ends[-1]].copy()
        buffers = [None, pa.py_buffer(ends - ends[0]), pa.py_buffer(blob)]
        return pa.Array.from_buffers(pa.large_string(), ends.size - 1, buffers)

    def text(self, code: int) -> str:
        low, high = self.arrays.ends[code : code + 2]
        return self.arrays.blob[low:high].tobytes().decode()

    def _grow(self, size: int) -> None:
        old, count = self.arrays, len(self)
        used = int(old.ends[count])
        blob, capacity = old.blob, _capacity(old.hashes.size)
        if used + size > blob.size:
            blob = np.empty(max(_larger(blob.size), used + size), np.uint8)
            blob[:used] = old.blob[:used]
        if count == capacity:
            capacity = _larger(capacity)
        ends, hashes, slots = np.zeros(capacity + 1, np.int64), np.empty(capacity, np.uint64), old.slots
        ends[: count + 1], hashes[:count] = old.ends[: count + 1], old.hashes[:count]
        if slots.size != 2 * capacity:
            slots = np.full(2 * capacity, -1, np.int32)
            place(hashes, count, slots)
        self.arrays = StringArrays(blob, ends, hashes, slots, old.used)


class PairTable:
    """Pairs of codes with codes of their own, in order of first appearance."""

    def __init__(self) -> None:
        self.arrays = PairArrays(np.empty(_LEAST, np.int64), np.full(2 * _LEAST, -1, np.int32), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return int(self.arrays.used[0])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def codes(self, left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int32]:
        """The codes of the pairs (left[i], right[i]), -1 where either is -1; new pairs get new codes."""
        out = np.empty(left.size, np.int32)
        left, right = frozen(left, np.int32), frozen(right, np.int32)
        done = 0
        while (done := intern_pairs(left, right, done, self.arrays, out)) < left.size:
            self._grow()
        return out

    def _grow(self) -> None:
        old, count = self.arrays, len(self)
        pairs = np.empty(_larger(old.pairs.size), np.int64)
        pairs[:count] = old.pairs[:count]
        slots = np.full(2 * pairs.size, -1, np.int32)
        hashes = np.empty(count, np.uint64)
        hash_pairs(pairs, hashes)
        place(hashes, count, slots)
        self.arrays = PairArrays(pairs, slots, old.used)


def spans(strings: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The bytes of an Arrow array of strings, and where each begins and ends."""
    blob, limits = _limits_of(strings)
    return blob, limits[:-1], limits[1:]


def _limits_of(strings: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of an Arrow array of strings, and the limits of each: string i is blob[limits[i] : limits[i + 1]]."""
    if not len(strings):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    wide = strings.cast(pa.large_string()) if not pa.types.is_large_string(strings.type) else strings
    _, limits, data = wide.buffers()
    blob = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return blob, np.frombuffer(limits, np.int64)[wide.offset : wide.offset + len(wide) + 1]


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself if it can be written to, as kernels are compiled for, else a copy."""
    return array if array.flags.writeable else array.copy()


def numbers_among(names: Any, others: Any) -> NDArray[np.int32]:
    """The number of each name among others, -1 for those that are not there."""
    if not len(names) or not len(others):
        return np.full(len(names), -1, np.int32)
    return StringTable.of(others).found(*spans(names))


def hashes(buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The hash of each string buffer[begins[i] : ends[i]]."""
    out = np.empty(begins.size, np.uint64)
    hash_strings(frozen(buffer, np.uint8), frozen(begins, np.int64), frozen(ends, np.int64), out)
    return out
