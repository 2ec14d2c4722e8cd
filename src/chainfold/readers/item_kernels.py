"""The attributes of items, from the bytes that `marshal` writes of lists of dicts (its format 4).

    [ n …   ( n …   ) n …     a list or tuple of n things         { key value … 0    a dict
    z a u t, Z and A          a text, with its size               T F i g            True, False, an int, a float
    r n                       the n-th of the things marked with the bit REF, once more

    texts(prefix, {k: text, …}) = prefix k:text, …         texts(prefix, {k: number, …}) = prefix k, …, with its value
    texts(prefix, {k: many, …}) = texts(prefix k:, many)   texts(prefix, [text, …])      = prefix text, …

A piece is a list of items. One that has anything else in it, or a text with half of a character, is UNUSUAL: what its
attributes are is for Python to say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainfold.system.intrinsics import WORD, put_word, word
from chainfold.system.jit import OK, STRICT, kernel

FULL, UNUSUAL = 1, 2  # more room is needed; a piece has other things than these

_MOST_DEPTH, _MOST_PREFIX = 16, 1024  # of what is nested; what goes beyond is unusual
_REF, _KIND = 0x80, 0x7F
_AGAIN, _LIST, _TUPLE, _SHORT_TUPLE, _DICT, _END = (ord(code) for code in "r[(){0")
_SHORT, _SHORT_INTERNED, _ASCII, _ASCII_INTERNED, _TEXT, _TEXT_INTERNED = (ord(code) for code in "zZaAut")
_TRUE, _FALSE, _INT, _FLOAT, _COLON = (ord(code) for code in "TFig:")
_A_DICT, _NO_CONTAINER = -1, -2
_FIRST_OF_HALF, _LEAST_OF_HALF = 0xED, 0xA0  # the bytes of half of a character


@kernel(fastmath=STRICT, inline=True)
def count_at(data: Any, at: Any) -> Any:
    """A number of four bytes with a sign, the lowest byte first."""
    number = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
    number |= np.int64(data[at + 3]) << 24
    return number - (np.int64(1) << 32) if number >> 31 else number


@kernel(fastmath=STRICT, inline=True)
def container_at(data: Any, at: Any) -> Any:
    """(How many things follow, or that it is a dict or none of these, and where the first of them begins)."""
    kind = np.int64(data[at]) & _KIND
    if kind == _DICT:
        return np.int64(_A_DICT), at + 1
    if kind in (_LIST, _TUPLE):
        return count_at(data, at + 1), at + 5
    if kind == _SHORT_TUPLE:
        return np.int64(data[at + 1]), at + 2
    return np.int64(_NO_CONTAINER), at


@kernel(fastmath=STRICT, inline=True)
def text_at(data: Any, at: Any) -> Any:
    """Where a text begins and ends; (-1, -1) if there is none, or half of a character in it."""
    kind = np.int64(data[at]) & _KIND
    low = high = np.int64(-1)
    if kind in (_SHORT, _SHORT_INTERNED):
        low = at + 2
        high = low + np.int64(data[at + 1])
    elif kind in (_ASCII, _ASCII_INTERNED):
        low = at + 5
        high = low + count_at(data, at + 1)
    elif kind in (_TEXT, _TEXT_INTERNED):
        low = at + 5
        high = low + count_at(data, at + 1)
        end = high
        for k in range(low, end - 1):
            if data[k] == _FIRST_OF_HALF and data[k + 1] >= _LEAST_OF_HALF:
                low = high = np.int64(-1)
    return low, high


@kernel(fastmath=STRICT, inline=True)
def write(source: Any, i: Any, target: Any, j: Any, size: Any) -> None:
    """target[j : j + size] = source[i : i + size], in whole words; what follows it is written later."""
    for k in range(0, size, WORD):
        put_word(target, j + k, word(source, i + k))


@kernel(fastmath=STRICT)
def flatten(
    data: Any, piece_ends: Any, first: Any, rows: Any, refs: Any, text: Any, offsets: Any, values: Any, row_ends: Any
) -> Any:
    """The attributes of the pieces from `first` on, which end at piece_ends in the data, the first `rows` items given.

    Attribute k is text[offsets[k] : offsets[k + 1]] with values[k]; row_ends: [items], the attributes up to each item.
    refs: room for places in the data. WORD bytes of no meaning end each piece. Returns (status, the piece at which it
    stopped, items by then).
    """
    number = np.empty(1)
    octets = number.view(np.uint8)
    prefix, left, sizes = (
        np.empty(_MOST_PREFIX, np.uint8),
        np.empty(_MOST_DEPTH, np.int64),
        np.empty(_MOST_DEPTH, np.int64),
    )
    for piece in range(first, piece_ends.size):
        begin = piece_ends[piece - 1] if piece else np.int64(0)
        row, entry = rows, row_ends[rows - 1] if rows else np.int64(0)
        marked = 0
        if data[begin] & _REF:
            refs[0], marked = begin, 1
        items, at = container_at(data, begin)
        if items < 0:
            return UNUSUAL, piece, rows
        for _ in range(items):
            depth, size = -1, np.int64(0)  # of the prefix
            opening = at
            while True:
                if opening >= 0:  # a container begins here
                    if data[opening] & _REF:
                        refs[marked] = opening
                        marked += 1
                    count, at = container_at(data, opening)
                    depth += 1
                    if count == _NO_CONTAINER or depth == _MOST_DEPTH:
                        return UNUSUAL, piece, rows
                    left[depth], sizes[depth] = count, size
                    opening = np.int64(-1)
                if left[depth] == 0 or (left[depth] == _A_DICT and data[at] == _END):
                    at += np.int64(left[depth] == _A_DICT)
                    depth -= 1
                    if depth < 0:
                        break
                    continue
                size = sizes[depth]
                if data[at] == _AGAIN:
                    low, high = text_at(data, refs[count_at(data, at + 1)])
                    at += 5
                else:
                    if data[at] & _REF:
                        refs[marked] = at
                        marked += 1
                    low, high = text_at(data, at)
                    at = high
                if low < 0:
                    return UNUSUAL, piece, rows
                value, second, end = 1.0, np.int64(0), np.int64(-1)  # the text of the value, if it is one
                if left[depth] > 0:
                    left[depth] -= 1
                else:
                    where, again = at, data[at] == _AGAIN
                    if again:
                        where = refs[count_at(data, at + 1)]
                    kind = np.int64(data[where]) & _KIND
                    second, end = text_at(data, where)
                    after = end
                    if end < 0:
                        if kind in (_TRUE, _FALSE):
                            value, after = 1.0 if kind == _TRUE else 0.0, where + 1
                        elif kind == _INT:
                            value, after = float(count_at(data, where + 1)), where + 5
                        elif kind == _FLOAT:
                            for k in range(8):
                                octets[k] = data[where + 1 + k]
                            value, after = number[0], where + 9
                            if not abs(value) < np.inf:
                                return UNUSUAL, piece, rows
                        elif not again and container_at(data, where)[0] != _NO_CONTAINER:
                            if size + high - low + WORD > _MOST_PREFIX:
                                return UNUSUAL, piece, rows
                            write(data, low, prefix, size, high - low)
                            size += high - low + 1
                            prefix[size - 1] = _COLON
                            opening = where
                            continue
                        else:
                            return UNUSUAL, piece, rows
                    if not again and data[where] & _REF:
                        refs[marked] = where
                        marked += 1
                    at = at + 5 if again else after
                place = offsets[entry]
                whole = size + high - low + (end - second + 1 if end >= 0 else 0)
                if entry == values.size or place + whole + WORD > text.size:
                    return FULL, piece, rows
                write(prefix, 0, text, place, size)
                write(data, low, text, place + size, high - low)
                if end >= 0:
                    text[place + size + high - low] = _COLON
                    write(data, second, text, place + whole - (end - second), end - second)
                values[entry] = value
                entry += 1
                offsets[entry] = place + whole
            row_ends[row] = entry
            row += 1
        rows = row
    return OK, piece_ends.size, rows
