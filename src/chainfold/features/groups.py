"""Groups that were seen: a column of groups whose rows are not together is noticed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.strings import PairTable, StringTable
from chainfold.errors import BadFile
from chainfold.readers.columns import Stretch

_MOST = 1 << 24  # groups: a quarter of a gigabyte
_HALF = np.uint64((1 << 31) - 1)


class SeenGroups:
    """The groups that have begun so far, by 62 bits of their hashes: about 16 bytes each, whatever they are called."""

    def __init__(self) -> None:
        self._table = PairTable()

    def check(
        self, stretch: Stretch, column: str, begins: NDArray[np.int64], groups: NDArray[np.int32], texts: StringTable
    ) -> None:
        """Raise if one of the groups that begin at these rows has begun before; -1 is a missing one."""
        before = len(self._table)
        again = np.flatnonzero(self._numbers(groups, texts) != before + np.arange(groups.size))
        if again.size:
            code, row = int(groups[again[0]]), int(begins[again[0]])
            group = "the missing group" if code < 0 else f"group {texts.text(code)!r}"
            raise BadFile(
                stretch.source,
                f"{stretch.place(row)}, column {column!r}: {group} comes again after another; sort the rows by group, "
                f"or say --groups-return if each of its runs is a sequence of its own.",
            )
        if len(self._table) > _MOST:
            raise BadFile(
                stretch.source,
                f"column {column!r} has more than {_MOST:,} groups, too many to see whether one comes again; say "
                f"--groups-return to do without.",
            )

    def _numbers(self, groups: NDArray[np.int32], texts: StringTable) -> NDArray[np.int32]:
        """A number for each group, in order of first appearance."""
        hashes = np.append(texts.arrays.hashes[: len(texts)], np.uint64(0))[groups]  # the last one is that of -1
        upper, lower = (hashes >> np.uint64(33)).astype(np.int32), (hashes & _HALF).astype(np.int32)
        return self._table.codes(upper, lower)
