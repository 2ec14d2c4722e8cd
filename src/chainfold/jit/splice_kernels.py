"""New fields in old text: where they go, and the text with them in their places.

The fields of row r replace data[begins[r] : ends[r]], which is empty where nothing is to be lost. Before each of them
stands the row's separator; one of zero means that the first field begins its line, and tabs stand before the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.jit.decorator import STRICT, kernel
from chainfold.jit.string_kernels import copied
from chainfold.jit.text_kernels import place_of

NEWLINE, RETURN, TAB, SPACE = 10, 13, 9, 32
NOTHING = 0  # the separator where the first field begins its line


class Places(NamedTuple):
    """Where the fields of each row go."""

    begins: NDArray[np.int64]  # [rows]
    ends: NDArray[np.int64]
    separators: NDArray[np.uint8]


class Fields(NamedTuple):
    """The texts of new columns: that of column c at row r is texts[begins[c, r] : ends[c, r]]."""

    texts: NDArray[np.uint8]
    begins: NDArray[np.int64]  # [columns, rows]
    ends: NDArray[np.int64]


@kernel(fastmath=STRICT)
def line_places(data: Any, rows: Any, attributes: Any, out: Any) -> None:
    """Row r is line rows[r] of the data: fields go to its end, or in place of all that follows its first tab."""
    line, low = 0, 0
    for r in range(rows.size):
        while line < rows[r]:
            low, line = place_of(NEWLINE, data, low, data.size) + 1, line + 1
        high = place_of(NEWLINE, data, low, data.size)
        following = high + 1
        if high > low and data[high - 1] == RETURN:
            high -= 1
        tab = place_of(TAB, data, low, high)
        out.ends[r] = high
        out.begins[r] = tab if attributes else high
        if attributes:
            out.separators[r] = NOTHING if tab == low else TAB
        else:
            out.separators[r] = TAB if tab < high else SPACE
        low, line = following, line + 1


@kernel(fastmath=STRICT)
def splice(data: Any, at: Any, places: Any, fields: Any, out: Any) -> Any:
    """out = data[at : begins[0]] + fields of row 0 + data[ends[0] : begins[1]] + …; returns its size."""
    size = 0
    for r in range(places.begins.size):
        kept = places.begins[r] - at
        copied(data, at, out, size, kept)
        size += kept
        at = places.ends[r]
        separator = places.separators[r]
        for c in range(fields.begins.shape[0]):
            if separator != NOTHING or c > 0:
                out[size] = TAB if separator == NOTHING else separator
                size += 1
            begin, length = fields.begins[c, r], fields.ends[c, r] - fields.begins[c, r]
            copied(fields.texts, begin, out, size, length)
            size += length
    return size
