"""Arrays that are lent and given back: new memory costs a page fault for each page."""

from __future__ import annotations

import threading
from collections import defaultdict

from chainfold.core.slots import aligned
from chainfold.model.layout import Floats


class ArrayPool:
    """Arrays that are lent and given back."""

    def __init__(self) -> None:
        self._free: dict[int, list[Floats]] = defaultdict(list)
        self._lock = threading.Lock()

    def take(self, size: int) -> Floats:
        """An array that begins a cache line; its content is undefined."""
        array = self._used(size)
        return aligned(size) if array is None else array

    def zeros(self, size: int) -> Floats:
        array = self._used(size)
        if array is None:
            return aligned(size)
        array[:] = 0.0
        return array

    def give(self, array: Floats) -> None:
        """Give back an array that was lent."""
        with self._lock:
            self._free[array.size].append(array)

    def _used(self, size: int) -> Floats | None:
        with self._lock:
            return self._free[size].pop() if self._free[size] else None
