"""Ranges of positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Ranges:
    """(low, high) of consecutive ranges of `size` positions, the last one shorter, that cover low … high-1.

    None is stored: a damaged file may claim any number of positions.

    >>> list(Ranges(0, 10, 4))
    [(0, 4), (4, 8), (8, 10)]
    """

    def __init__(self, low: int, high: int, size: int) -> None:
        self._begins, self._high, self._size = range(low, high, size), high, size

    def __len__(self) -> int:
        return len(self._begins)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self._ranges(self._begins)

    def __reversed__(self) -> Iterator[tuple[int, int]]:
        return self._ranges(reversed(self._begins))

    def _ranges(self, begins: Iterable[int]) -> Iterator[tuple[int, int]]:
        return ((begin, min(begin + self._size, self._high)) for begin in begins)
