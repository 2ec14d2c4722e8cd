"""The attributes of items, read from Python's dicts, lists and texts as they are in memory (`objects`).

    texts(prefix, {k: text, …}) = prefix k:text, …         texts(prefix, {k: number, …}) = prefix k, …, with its value
    texts(prefix, {k: many, …}) = texts(prefix k:, many)   texts(prefix, [text, …])      = prefix text, …

An item is a dict, a list or a tuple. One with anything else in it, or a text with half of a character, is UNUSUAL: what
its attributes are is for Python to say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.jit.decorator import OK, STRICT, kernel
from chainfold.jit.objects import (
    copy_bytes,
    entry_after,
    float_at,
    int_at,
    list_item,
    list_size,
    tuple_item,
    tuple_size,
    type_at,
    utf8_at,
)

FULL, UNUSUAL = 1, 2  # more room is needed; the next item has other things than these
TYPES = np.array([id(one) for one in (str, dict, list, tuple, float, int, bool, True)], np.int64)

_STR, _DICT, _LIST, _TUPLE, _FLOAT, _INT, _BOOL, _TRUE = range(8)  # places in TYPES
_MOST_DEPTH, _MOST_PREFIX = 16, 1024  # of what is nested; what goes beyond is unusual
_COLON = ord(":")


@kernel(fastmath=STRICT, inline=True)
def next_of(holder: Any, place: Any, types: Any) -> Any:
    """(the place, -1 at the end, the key or element, the value or 0) after a place in a dict, list or tuple."""
    kind = type_at(holder)
    if kind == types[_DICT]:
        return entry_after(holder, place)
    listed, nothing = kind == types[_LIST], np.int64(0)
    if place >= (list_size(holder) if listed else tuple_size(holder)):
        return np.int64(-1), nothing, nothing
    return place + 1, list_item(holder, place) if listed else tuple_item(holder, place), nothing


@kernel(fastmath=STRICT, inline=True)
def text_of(thing: Any, types: Any) -> Any:
    """(the address of a text, its bytes); address 0 for anything else."""
    if type_at(thing) == types[_STR]:
        return utf8_at(thing)
    return np.int64(0), np.int64(0)


@kernel(fastmath=STRICT, inline=True)
def value_of(thing: Any, types: Any) -> Any:
    """(a number, the address of a text, its bytes, -1 if there is none); NaN for what is neither."""
    nowhere, none = np.int64(0), np.int64(-1)
    if thing == 0:
        return 1.0, nowhere, none
    kind = type_at(thing)
    if kind == types[_STR]:
        low, length = utf8_at(thing)
        return 1.0 if low != 0 else np.nan, low, length
    if kind == types[_BOOL]:
        return 1.0 if thing == types[_TRUE] else 0.0, nowhere, none
    if kind == types[_FLOAT]:
        return float_at(thing), nowhere, none
    return int_at(thing) if kind == types[_INT] else np.nan, nowhere, none


@kernel(fastmath=STRICT, inline=True)
def is_container(thing: Any, types: Any) -> Any:
    """Whether it is a dict, a list or a tuple."""
    kind = type_at(thing)
    return kind == types[_DICT] or kind == types[_LIST] or kind == types[_TUPLE]


@kernel(fastmath=STRICT, lock=True)
def read_sequence(
    sequence: Any, item: Any, size: Any, types: Any, rows: Any, text: Any, offsets: Any, values: Any, ends: Any
) -> Any:
    """The items of one list or tuple of this size, from `item` on: (status, where it stopped, rows by then)."""
    # prefix: of names; levels: a container that has another in it, the place in it, the size of its prefix
    prefix, levels = np.empty(_MOST_PREFIX, np.uint8), np.empty((_MOST_DEPTH, 3), np.int64)
    begin, fixed = text.ctypes.data, prefix.ctypes.data
    entry = ends[rows - 1] if rows else np.int64(0)
    for t in range(item, size):
        after, holder, _ = next_of(sequence, np.int64(t), types)
        if after < 0 or not is_container(holder, types):
            return UNUSUAL, t, rows
        place, given, depth, at = np.int64(0), np.int64(0), 0, offsets[entry]
        while depth >= 0:
            place, key, value = next_of(holder, place, types)
            if place < 0:
                depth -= 1
                if depth >= 0:
                    holder, place, given = levels[depth, 0], levels[depth, 1], levels[depth, 2]
                continue
            low, length = text_of(key, types)
            if value != 0 and is_container(value, types):
                if low == 0 or depth == _MOST_DEPTH or given + length >= _MOST_PREFIX:
                    return UNUSUAL, t, rows
                levels[depth, 0], levels[depth, 1], levels[depth, 2] = holder, place, given
                copy_bytes(low, fixed + given, length)
                prefix[given + length] = _COLON
                holder, place, given, depth = value, np.int64(0), given + length + 1, depth + 1
                continue
            number, second, more = value_of(value, types)
            if low == 0 or not abs(number) < np.inf:
                return UNUSUAL, t, rows
            if entry == values.size or at + given + length + more + 1 > text.size:
                return FULL, t, rows
            if given > 0:
                copy_bytes(fixed, begin + at, given)
            copy_bytes(low, begin + at + given, length)
            at += given + length
            if more >= 0:
                text[at] = _COLON
                copy_bytes(second, begin + at + 1, more)
                at += more + 1
            values[entry] = number
            entry += 1
            offsets[entry] = at
        if rows == ends.size:
            return FULL, t, rows
        ends[rows] = entry
        rows += 1
    return OK, size, rows


@kernel(fastmath=STRICT, lock=True)
def read_items(
    sequences: Any,
    sizes: Any,
    first: Any,
    item: Any,
    addresses: Any,
    text: Any,
    offsets: Any,
    values: Any,
    ends: Any,
) -> Any:
    """The attributes of the items of some lists and tuples, from item `item` of sequence `first` on.

    addresses: TYPES. Attribute k is text[offsets[k] : offsets[k + 1]] with values[k]; ends: [items], the attributes up
    to each. Returns (status, the sequence and the item at which it stopped, the items that were read).
    """
    a, rows = addresses, 0
    types = (a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7])
    offsets[0] = 0
    for s in range(first, sequences.size):
        start = item if s == first else 0
        status, t, rows = read_sequence(sequences[s], start, sizes[s], types, rows, text, offsets, values, ends)
        if status != OK:
            return status, s, t, rows
    return OK, sequences.size, 0, rows
