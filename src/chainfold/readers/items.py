"""Lists of items to the texts and values of their attributes, without a step of Python for each.

`marshal` writes lists of dicts, texts and numbers as bytes, and a kernel reads them (`item_kernels`). What neither can,
which is anything but the built-in types themselves, is left to `sequences`, which defines what attributes items have.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.readers.item_kernels import FULL, flatten
from chainfold.system.intrinsics import WORD

_FORMAT = 4  # of marshal; it has had the same meaning since Python 3.4
_SAMPLE = (
    [{"a": "b", "é": 0.5, "c": True, "d": -2, "e": ("f",)}, ["g"]],
    b"a:b\xc3\xa9cde:fg",
    [1.0, 0.5, 1.0, -2.0, 1.0, 1.0],
)
_PADDING = bytes(WORD)  # the kernel reads a word at a time
_LEAST = 1024  # bytes, attributes


class ItemTexts(NamedTuple):
    """The attributes of consecutive items."""

    text: NDArray[np.uint8]  # attribute k is text[offsets[k] : offsets[k + 1]]
    offsets: NDArray[np.int64]
    values: NDArray[np.float64]
    ends: NDArray[np.int64]  # [items]  the attributes up to each item


def packed(items: Any) -> bytes | None:
    """A list or tuple of items as bytes; None where its types are others than `marshal` knows."""
    try:
        return marshal.dumps(items, _FORMAT) + _PADDING
    except (ValueError, RecursionError):
        return None


def item_texts(pieces: Sequence[bytes], items: int) -> tuple[ItemTexts, int]:
    """The attributes of packed pieces, `items` items at most, and how many of the pieces that are.

    They are fewer than were given if one has something in it that is neither a text, a bool, a number of usual size nor
    a dict, list or tuple of these.
    """
    if not is_known():
        return _none(), 0
    return _item_texts(pieces, items)


def _item_texts(pieces: Sequence[bytes], items: int) -> tuple[ItemTexts, int]:
    data = np.frombuffer(b"".join(pieces), np.uint8)
    piece_ends = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))
    refs = np.empty(max(map(len, pieces), default=0) // 2 + 1, np.int32)
    found = ItemTexts(
        np.empty(2 * data.size + _LEAST, np.uint8),
        np.zeros(data.size // 6 + _LEAST, np.int64),
        np.empty(data.size // 6 + _LEAST - 1),
        np.empty(items, np.int64),
    )
    piece = rows = 0
    while True:
        status, piece, rows = flatten(data, piece_ends, piece, rows, refs, *found)
        entries = int(found.ends[rows - 1]) if rows else 0
        if status != FULL:
            break
        found = _larger(found, entries)
    offsets = found.offsets[: entries + 1]
    return ItemTexts(found.text[: offsets[-1]], offsets, found.values[:entries], found.ends[:rows]), piece


def _larger(room: ItemTexts, entries: int) -> ItemTexts:
    """Twice the room, with the attributes that are there."""
    text, offsets, values = (
        np.empty(2 * room.text.size, np.uint8),
        np.zeros(2 * room.values.size + 1, np.int64),
        np.empty(2 * room.values.size),
    )
    size = int(room.offsets[entries])
    text[:size], offsets[: entries + 1], values[:entries] = (
        room.text[:size],
        room.offsets[: entries + 1],
        room.values[:entries],
    )
    return ItemTexts(text, offsets, values, room.ends)


def _none() -> ItemTexts:
    return ItemTexts(np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0), np.empty(0, np.int64))


@cache
def is_known() -> bool:
    """Does this Python write what the kernel reads?"""
    items, text, values = _SAMPLE
    found, pieces = _item_texts([marshal.dumps(items, _FORMAT) + _PADDING], len(items))
    return pieces == 1 and found.text.tobytes() == text and found.values.tolist() == values
