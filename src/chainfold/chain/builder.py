"""The vocabulary while it grows: ids for attributes as they appear, how often each occurs, and with which labels.

Attributes are named exactly, ids by first appearance, and renumbered at the end by falling frequency; or hashed, so
that memory does not grow however many there are; or they are those of a model, and others have no id.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import frozen
from chainfold.chain.strings import StringTable, hashes
from chainfold.chain.vocabulary import MARKS
from chainfold.errors import BadSetting
from chainfold.jit.entry_kernels import census

MOST_HASH_BITS = 24  # counts and marks of 2²⁴ ids take a quarter of a gigabyte
_MOST_CACHED = 32 << 20  # bytes of tables that find the same ids sooner
_MERGED = 1 << 14  # attributes whose marks are merged at once


class Names(Protocol):
    """Whatever gives ids to attributes."""

    exact: bool
    settled: int  # the first ids, which keep their numbers
    most_cached: int | None  # bytes of lookup tables, above which they are freed; None: never

    def __len__(self) -> int: ...
    def ids(
        self, buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.int32]: ...
    def strings(self) -> Any: ...


class ExactNames:
    """An id for each distinct string, after those known from before."""

    exact = True
    most_cached: int | None = None

    def __init__(self, before: Any = None) -> None:
        self._table = StringTable()
        if before is not None:
            self._table.codes_of(before)
        self.settled = len(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def ids(self, buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        return self._table.codes(buffer, begins, ends)

    def strings(self) -> Any:
        return self._table.strings()


def check_hash_bits(bits: int) -> None:
    """Raise unless attributes can be hashed to this many bits."""
    if not isinstance(bits, int) or not 1 <= bits <= MOST_HASH_BITS:
        raise BadSetting("hash_bits", bits, f"a whole number from 1 to {MOST_HASH_BITS}")


class HashedNames:
    """The low bits of a string's hash: two attributes may share an id, and no string is kept."""

    exact = False
    most_cached: int | None = _MOST_CACHED

    def __init__(self, bits: int, settled: bool = False) -> None:
        check_hash_bits(bits)
        self._size = 1 << bits
        self.settled = self._size if settled else 0

    def __len__(self) -> int:
        return self._size

    def ids(self, buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        return (hashes(buffer, begins, ends) & np.uint64(self._size - 1)).astype(np.int32)

    def strings(self) -> None:
        return None


class KnownNames:
    """The ids of the strings given; others have none, and are not kept."""

    exact = True

    def __init__(self, strings: Any) -> None:
        self._strings, self.table = strings, StringTable.of(strings)
        self.settled = len(strings)
        self.most_cached: int | None = max(_MOST_CACHED, self.table.nbytes)

    def __len__(self) -> int:
        return self.settled

    def ids(self, buffer: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        return self.table.found(buffer, begins, ends)

    def strings(self) -> Any:
        return self._strings


class Census:
    """How often each attribute occurs, and with which labels; both grow as ids and labels come."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._marks = np.zeros((0, 1), np.uint64)

    def add(
        self,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        ids: NDArray[np.int32],
        n_attributes: int,
        n_labels: int,
    ) -> None:
        """Count the entries of a stretch of positions."""
        words = -(-max(n_labels, 1) // MARKS)
        if n_attributes > self._counts.size or words > self._marks.shape[1]:
            self._grow(n_attributes, words)
        labels, offsets, ids = frozen(labels, np.int32), frozen(offsets, np.int64), frozen(ids, np.int32)
        census(labels, offsets, ids, self._marks.shape[1], self._counts, self._marks.reshape(-1))

    def merge(
        self,
        ids: NDArray[np.int32],
        counts: NDArray[np.int64],
        marks: NDArray[np.uint64],
        labels: NDArray[np.int32],
        n_attributes: int,
    ) -> None:
        """Count what was counted of some attributes, each once, under other numbers of labels.

        ids: the numbers of the attributes here; labels: those of the labels here, by their numbers there.
        """
        words = -(-max(int(labels.max(initial=0)) + 1, 1) // MARKS)
        if n_attributes > self._counts.size or words > self._marks.shape[1]:
            self._grow(n_attributes, words)
        self._counts[ids] += counts
        for low in range(0, ids.size, _MERGED):
            rows, number = np.nonzero(_bits(marks[low : low + _MERGED], labels.size))
            label = labels[number].astype(np.uint64)
            bit = np.left_shift(np.uint64(1), label % np.uint64(MARKS))
            np.bitwise_or.at(self._marks, (ids[low + rows], (label // np.uint64(MARKS)).astype(np.int64)), bit)

    def _grow(self, n_attributes: int, words: int) -> None:
        old_size, old_words = self._marks.shape
        size = old_size if n_attributes <= old_size else max(n_attributes, 2 * old_size)
        counts, marks = np.zeros(size, np.int64), np.zeros((size, max(words, old_words)), np.uint64)
        counts[:old_size], marks[:old_size, :old_words] = self._counts, self._marks
        self._counts, self._marks = counts, marks

    def totals(self, n_attributes: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Counts and marks of the first ids."""
        if n_attributes > self._counts.size:
            self._grow(n_attributes, 1)
        return self._counts[:n_attributes], self._marks[:n_attributes]


def _bits(marks: NDArray[np.uint64], n_labels: int) -> NDArray[np.uint8]:
    """[attributes, n_labels]: is the attribute marked with the label?"""
    bits = np.unpackbits(np.ascontiguousarray(marks, "<u8").view(np.uint8), axis=1, bitorder="little")
    return bits[:, :n_labels]


def by_falling_count(counts: NDArray[np.int64], min_count: int, settled: int = 0) -> NDArray[np.int64]:
    """The ids that occur often enough, the most frequent first, equals in their own order; settled ones before all."""
    if settled:
        return np.concatenate([np.arange(settled), settled + by_falling_count(counts[settled:], min_count)])
    order = np.argsort(-counts, kind="stable")
    return order[: int(np.count_nonzero(counts >= min_count))]
